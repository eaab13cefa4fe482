// A conversation as one text for the model.
#pragma once

#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "serve/fields.h"
#include "serve/template_files.h"
#include "serve/token_text.h"

namespace satformer::serve {

struct ChatMessage {
  std::string role;  // system, user, assistant, tool
  std::string content;
  bool has_content = true;  // false: null, beside calls of tools
  Json more = {};           // fields for templates: name, tool_calls, tool_call_id, reasoning_content
};
struct Conversation {
  std::vector<ChatMessage> messages;
  Json tools = nullptr;             // a list, or null
  Json variables = Json::object();  // chat_template_kwargs
};
// "messages", "tools" and "chat_template_kwargs" of a request; 400 for other roles and for content that is not text.
Conversation read_conversation(const Fields& fields);
extern const std::vector<std::string> conversation_fields;

// One of the five that are built in, or the templates that came with a model, which are programs in the language
// Jinja (src/jinja) and are run.
class ChatTemplate {
 public:
  enum class Kind { plain, chatml, llama3, llama2, zephyr, file };
  explicit ChatTemplate(Kind kind = Kind::plain) : kind_(kind) {}
  static const std::vector<std::string>& names();  // of those built in
  // `choice`: --chat-template, which is one built in, one of the model's by name, or a file. Without it the model's
  // default, else plain. Error(usage) with the nearest name, Error(data) for a template that cannot be parsed.
  static ChatTemplate choose(const std::string& choice, const TemplateFiles& files);
  std::string name() const;           // "chatml", or where a file's template comes from
  const std::string& source() const;  // of a file's default template; else empty

  // Ends where the assistant's answer begins. 400 where the template raises an exception or fails, and for tools that
  // it knows nothing of.
  std::string prompt(const Conversation& conversation) const;
  // With the tokenizer, which fills in the names of BOS and EOS and knows what a file's template puts behind an
  // answer.
  void complete(const TokenText& text);
  // What ends the answer besides EOS; of a file's template the special token behind an assistant's message.
  std::vector<std::string> stop() const;
  bool uses_special_tokens() const { return kind_ != Kind::plain; }
  bool puts_bos() const { return kind_ == Kind::file; }  // or leaves it out: nobody else does

 private:
  struct Programs;
  std::string rendered(const Conversation& conversation, bool answer_begins) const;

  Kind kind_;
  std::shared_ptr<const Programs> programs_;  // Kind::file
  Json tokens_ = Json::object();              // bos_token and the like
  std::vector<std::string> stop_;
};

}  // namespace satformer::serve
