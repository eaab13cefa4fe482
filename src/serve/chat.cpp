#include "serve/chat.h"

#include <algorithm>
#include <nlohmann/json.hpp>

namespace satformer::serve {
namespace {

std::string content_of(const Json& message) {
  const Json& content = message.at("content");
  if (content.is_string()) return content.get<std::string>();
  const char* expected =
      "'messages': a message's 'content' must be a text or a list of {\"type\": \"text\", \"text\"}";
  if (!content.is_array()) throw ApiError(400, expected, "messages");
  std::string text;
  for (const Json& part : content) {
    if (!part.is_object() || !part.contains("type") || part["type"] != "text" || !part.contains("text") ||
        !part["text"].is_string()) {
      throw ApiError(400, expected, "messages");
    }
    text += part["text"].get<std::string>();
  }
  return text;
}

}  // namespace

std::vector<ChatMessage> read_messages(const Fields& fields) {
  if (!fields.has("messages")) throw ApiError(400, "'messages' is missing: a list of messages", "messages");
  const Json& list = fields.at("messages");
  if (!list.is_array() || list.empty()) fields.refuse("messages", "a list of at least one message");
  std::vector<ChatMessage> messages;
  for (const Json& item : list) {
    const Fields message(item, {"role", "content", "name"}, "messages.");
    if (!message.has("content")) throw ApiError(400, "'messages': a message has no 'content'", "messages");
    std::string role = message.text("role", "");
    if (role == "developer") role = "system";
    if (role != "system" && role != "user" && role != "assistant") {
      throw ApiError(400, "'messages': a message's 'role' must be system, user or assistant", "messages");
    }
    messages.push_back({std::move(role), content_of(item)});
  }
  return messages;
}

const std::vector<std::string>& ChatTemplate::names() {
  static const std::vector<std::string> list = {"plain", "chatml", "llama3", "llama2", "zephyr"};
  return list;
}

ChatTemplate ChatTemplate::by_name(const std::string& name) {
  const auto found = std::find(names().begin(), names().end(), name);
  if (found == names().end()) {
    fail(ExitCode::usage, "--chat-template '", name, "' is not one of: plain, chatml, llama3, llama2, zephyr.",
         did_you_mean(name, names()));
  }
  return ChatTemplate(static_cast<Kind>(found - names().begin()));
}

std::string ChatTemplate::name() const { return names()[static_cast<std::size_t>(kind_)]; }

ChatTemplate ChatTemplate::recognise(const std::string& text) {
  const auto has = [&](const char* mark) { return text.find(mark) != std::string::npos; };
  if (has("<|im_start|>")) return ChatTemplate(Kind::chatml);
  if (has("<|start_header_id|>")) return ChatTemplate(Kind::llama3);
  if (has("[INST]")) return ChatTemplate(Kind::llama2);
  if (has("<|user|>")) return ChatTemplate(Kind::zephyr);
  fail(ExitCode::data, "the chat template of the tokenizer is of no known family; --chat-template names one");
}

std::string ChatTemplate::prompt(const std::vector<ChatMessage>& messages) const {
  std::string text;
  switch (kind_) {
    case Kind::plain:
      for (const ChatMessage& m : messages) {
        text += (m.role == "user" ? "User: " : m.role == "assistant" ? "Assistant: " : "") + m.content + "\n";
      }
      return text + "Assistant:";
    case Kind::chatml:
      for (const ChatMessage& m : messages) text += "<|im_start|>" + m.role + "\n" + m.content + "<|im_end|>\n";
      return text + "<|im_start|>assistant\n";
    case Kind::llama3:
      for (const ChatMessage& m : messages) {
        text += "<|start_header_id|>" + m.role + "<|end_header_id|>\n\n" + m.content + "<|eot_id|>";
      }
      return text + "<|start_header_id|>assistant<|end_header_id|>\n\n";
    case Kind::llama2: {
      std::string system;
      for (const ChatMessage& m : messages) {
        if (m.role == "system") {
          system += "<<SYS>>\n" + m.content + "\n<</SYS>>\n\n";
        } else if (m.role == "user") {
          text += "[INST] " + system + m.content + " [/INST]";
          system.clear();
        } else {
          text += " " + m.content + " </s>";
        }
      }
      return text;
    }
    case Kind::zephyr:
      for (const ChatMessage& m : messages) text += "<|" + m.role + "|>\n" + m.content + "</s>\n";
      return text + "<|assistant|>\n";
  }
  return text;
}

std::vector<std::string> ChatTemplate::stop() const {
  switch (kind_) {
    case Kind::plain:
      return {"\nUser:"};
    case Kind::chatml:
      return {"<|im_end|>"};
    case Kind::llama3:
      return {"<|eot_id|>"};
    case Kind::llama2:
      return {"[INST]"};
    case Kind::zephyr:
      return {"<|user|>"};
  }
  return {};
}

}  // namespace satformer::serve
