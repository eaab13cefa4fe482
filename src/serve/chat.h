// A conversation as one text for the model.
#pragma once

#include <string>
#include <vector>

#include "serve/fields.h"

namespace satformer::serve {

struct ChatMessage {
  std::string role;  // system, user, assistant
  std::string content;
};
// The "messages" of a request; 400 for other roles and for content that is not text.
std::vector<ChatMessage> read_messages(const Fields& fields);

// The families of templates that models in use have. Templates are programs (Jinja); they are not run, but recognised
// by the marks that they put around messages.
class ChatTemplate {
 public:
  enum class Kind { plain, chatml, llama3, llama2, zephyr };
  explicit ChatTemplate(Kind kind = Kind::plain) : kind_(kind) {}
  // From the text of a template in tokenizer_config.json. Error(data) if it is of no known family.
  static ChatTemplate recognise(const std::string& text);
  static ChatTemplate by_name(const std::string& name);  // Error(usage) with the nearest
  static const std::vector<std::string>& names();
  std::string name() const;

  std::string prompt(const std::vector<ChatMessage>& messages) const;  // ends where the assistant's answer begins
  std::vector<std::string> stop() const;                               // what ends the answer besides EOS
  bool uses_special_tokens() const { return kind_ != Kind::plain; }

 private:
  Kind kind_;
};

}  // namespace satformer::serve
