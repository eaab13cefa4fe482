#include "serve/chat.h"

#include <algorithm>
#include <ctime>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/unicode.h"
#include "io/file.h"
#include "jinja/template.h"

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

// Calls of tools have their arguments as a JSON text in requests, and as an object in templates.
void open_arguments(Json& message) {
  if (!message.contains("tool_calls") || !message["tool_calls"].is_array()) return;
  for (Json& call : message["tool_calls"]) {
    if (!call.is_object() || !call.contains("function") || !call["function"].is_object()) continue;
    Json& function = call["function"];
    if (!function.contains("arguments") || !function["arguments"].is_string()) continue;
    Json arguments = Json::parse(function["arguments"].get<std::string>(), nullptr, false);
    if (arguments.is_object()) function["arguments"] = std::move(arguments);
  }
}

ChatMessage read_message(const Json& item) {
  const Fields message(
      item, {"role", "content", "name", "tool_calls", "tool_call_id", "reasoning_content", "refusal"}, "messages.");
  ChatMessage read;
  read.role = message.text("role", "");
  if (read.role != "system" && read.role != "developer" && read.role != "user" && read.role != "assistant" &&
      read.role != "tool") {
    throw ApiError(400, "'messages': a message's 'role' must be system, developer, user, assistant or tool",
                   "messages");
  }
  if (message.has("tool_calls") && !message.at("tool_calls").is_array()) message.refuse("tool_calls", "a list");
  read.has_content = message.has("content");
  if (!read.has_content && !(read.role == "assistant" && message.has("tool_calls"))) {
    throw ApiError(400, "'messages': a message has no 'content'", "messages");
  }
  if (read.has_content) read.content = content_of(item);
  for (const char* key : {"name", "tool_calls", "tool_call_id", "reasoning_content"}) {
    if (message.has(key)) read.more[key] = message.at(key);
  }
  open_arguments(read.more);
  return read;
}

}  // namespace

const std::vector<std::string> conversation_fields = {"messages", "tools", "tool_choice", "chat_template_kwargs"};

Conversation read_conversation(const Fields& fields) {
  if (!fields.has("messages")) throw ApiError(400, "'messages' is missing: a list of messages", "messages");
  const Json& list = fields.at("messages");
  if (!list.is_array() || list.empty()) fields.refuse("messages", "a list of at least one message");
  Conversation conversation;
  for (const Json& item : list) conversation.messages.push_back(read_message(item));
  if (fields.has("tool_choice")) {
    const Json& choice = fields.at("tool_choice");
    if (choice != "auto" && choice != "none") fields.refuse("tool_choice", "\"auto\" or \"none\"");
  }
  if (fields.has("tools")) {
    const Json& tools = fields.at("tools");
    const bool objects = tools.is_array() &&
                         std::all_of(tools.begin(), tools.end(), [](const Json& tool) { return tool.is_object(); });
    if (!objects) fields.refuse("tools", "a list of objects");
    const bool wanted = !fields.has("tool_choice") || fields.at("tool_choice") == "auto";
    if (wanted && !tools.empty()) conversation.tools = tools;
  }
  if (fields.has("chat_template_kwargs")) {
    conversation.variables = fields.at("chat_template_kwargs");
    if (!conversation.variables.is_object()) fields.refuse("chat_template_kwargs", "an object");
  }
  return conversation;
}

struct ChatTemplate::Programs {
  struct Program {
    std::string name, source;
    jinja::Template program;
  };
  std::string origin;
  std::vector<Program> list;  // the first is the default

  const Program& of(const Conversation& conversation) const {
    for (const Program& p : list) {
      if (p.name == "tool_use" && !conversation.tools.is_null()) return p;
    }
    return list.front();
  }
};

const std::vector<std::string>& ChatTemplate::names() {
  static const std::vector<std::string> list = {"plain", "chatml", "llama3", "llama2", "zephyr"};
  return list;
}

ChatTemplate ChatTemplate::choose(const std::string& choice, const TemplateFiles& files) {
  const auto built_in = std::find(names().begin(), names().end(), choice);
  if (built_in != names().end()) return ChatTemplate(static_cast<Kind>(built_in - names().begin()));
  if (choice.empty() && files.sources.empty()) return ChatTemplate();
  std::vector<TemplateFiles::Source> sources = files.sources;
  const std::string wanted = choice.empty() ? "default" : choice;
  auto first = std::find_if(sources.begin(), sources.end(), [&](const auto& s) { return s.name == wanted; });
  if (!choice.empty() && first == sources.end()) {
    std::error_code ignored;
    if (!std::filesystem::is_regular_file(choice, ignored)) {
      std::vector<std::string> known = names();
      for (const auto& source : sources) known.push_back(source.name);
      std::string list;
      for (const std::string& name : known) list += (list.empty() ? "" : ", ") + name;
      fail(ExitCode::usage, "--chat-template '", choice, "' is neither a file nor one of: ", list, ".",
           did_you_mean(choice, known));
    }
    sources = {{"default", read_file(choice), choice}};
    first = sources.begin();
  }
  if (first == sources.end()) first = sources.begin();
  // One that was chosen is for everything; the default leaves tools to the one that is made for them.
  auto programs = std::make_shared<Programs>();
  programs->origin = first->origin;
  const auto add = [&](const TemplateFiles::Source& s) {
    programs->list.push_back({s.name, s.text, jinja::Template(s.text, s.origin)});
  };
  add(*first);
  for (const auto& source : sources) {
    if (choice.empty() && source.name == "tool_use" && source.name != first->name) add(source);
  }
  ChatTemplate made(Kind::file);
  made.programs_ = std::move(programs);
  made.tokens_ = files.tokens;
  return made;
}

std::string ChatTemplate::name() const {
  return kind_ == Kind::file ? programs_->origin : names()[static_cast<std::size_t>(kind_)];
}

const std::string& ChatTemplate::source() const {
  static const std::string none;
  return kind_ == Kind::file ? programs_->list.front().source : none;
}

std::string ChatTemplate::rendered(const Conversation& conversation, bool answer_begins) const {
  const Programs::Program& chosen = programs_->of(conversation);
  if (!conversation.tools.is_null() && !chosen.program.uses("tools")) {
    throw ApiError(400, "'tools': the chat template of this model knows nothing of tools", "tools");
  }
  Json variables = tokens_;
  const bool knows_developer = chosen.source.find("developer") != std::string::npos;
  Json messages = Json::array();
  for (const ChatMessage& m : conversation.messages) {
    Json message = {{"role", m.role == "developer" && !knows_developer ? "system" : m.role},
                    {"content", m.has_content ? Json(m.content) : Json(nullptr)}};
    for (const auto& [key, value] : m.more.items()) message[key] = value;
    messages.push_back(std::move(message));
  }
  variables["messages"] = std::move(messages);
  variables["tools"] = conversation.tools;
  variables["documents"] = nullptr;
  variables["add_generation_prompt"] = answer_begins;
  for (const auto& [key, value] : conversation.variables.items()) variables[key] = value;
  return chosen.program.render(variables, std::time(nullptr));
}

std::string ChatTemplate::prompt(const Conversation& conversation) const {
  if (kind_ == Kind::file) {
    try {
      return rendered(conversation, true);
    } catch (const Error& error) {
      throw ApiError(400, error.what(), "messages");
    }
  }
  if (!conversation.tools.is_null() || !conversation.variables.empty()) {
    throw ApiError(400,
                   concat("'tools' and 'chat_template_kwargs' are for templates of models; this is '", name(), "'"),
                   conversation.tools.is_null() ? "chat_template_kwargs" : "tools");
  }
  std::vector<ChatMessage> messages = conversation.messages;
  for (ChatMessage& m : messages) {
    if (m.role == "developer") m.role = "system";
    if (m.role == "tool" || m.more.contains("tool_calls")) {
      throw ApiError(400, concat("'messages': the chat template '", name(), "' knows nothing of tools"), "messages");
    }
  }
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
    case Kind::file:
      break;
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
    case Kind::file:
      break;
  }
  return stop_;
}

void ChatTemplate::complete(const TokenText& text) {
  if (kind_ != Kind::file) return;
  const Tokenizer& tokenizer = text.tokenizer();
  const auto name_of = [&](std::int32_t id) { return id >= 0 ? tokenizer.piece(id) : std::string(); };
  if (!tokens_.contains("bos_token")) tokens_["bos_token"] = name_of(tokenizer.bos_id());
  if (!tokens_.contains("eos_token")) tokens_["eos_token"] = name_of(tokenizer.eos_id());
  // What the template puts behind an answer is seen from one that is known.
  const std::string answer = "an answer to look for";
  stop_.clear();
  try {
    const std::string whole = rendered({{{"user", "x"}, {"assistant", answer}}, nullptr, Json::object()}, false);
    const std::size_t at = whole.rfind(answer);
    if (at == std::string::npos) return;
    const std::string token = text.special_at(strip_left(std::string_view(whole).substr(at + answer.size())));
    if (!token.empty()) stop_.push_back(token);
  } catch (const Error&) {
    // A template that asks for something else: EOS alone ends its answers.
  }
}

}  // namespace satformer::serve
