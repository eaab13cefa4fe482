#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "io/file.h"
#include "io/test_folder.h"
#include "io/tokenizer.h"
#include "serve/chat.h"
#include "serve/fields.h"
#include "serve/generation_format.h"
#include "serve/metrics.h"
#include "serve/token_text.h"

namespace satformer::serve {
namespace {

// Status of what an action throws, 0 if nothing.
template <class Action>
int status_of(const Action& action) {
  try {
    action();
  } catch (const ApiError& error) {
    const Json json = Json::parse(error.reply().body);
    EXPECT_EQ(json["error"].size(), 4u);
    return error.status();
  }
  return 0;
}

TEST(Fields, TypesBoundsAndUnknownNames) {
  const Json body =
      parse_body(R"({"a": 3, "b": 1.5, "c": "x", "d": true, "e": ["x", "y"], "f": null, "gatez": 1e300})");
  const Fields fields(body, {"a", "b", "c", "d", "e", "f", "gatez"});
  EXPECT_EQ(fields.integer("a", 0, 0, 3), 3);
  EXPECT_EQ(fields.number("b", 0, 0, 2), 1.5);
  EXPECT_EQ(fields.number("a", 0, 0, 3), 3.0);
  EXPECT_EQ(fields.text("c", ""), "x");
  EXPECT_TRUE(fields.flag("d", false));
  EXPECT_EQ(fields.texts("e"), (std::vector<std::string>{"x", "y"}));
  EXPECT_EQ(fields.texts("c"), std::vector<std::string>{"x"});
  EXPECT_EQ(fields.integer("f", 7, 0, 9), 7);
  EXPECT_FALSE(fields.has("f"));
  EXPECT_EQ(status_of([&] { fields.integer("a", 0, 0, 2); }), 400);
  EXPECT_EQ(status_of([&] { fields.integer("b", 0, 0, 2); }), 400);
  EXPECT_EQ(status_of([&] { fields.number("d", 0, 0, 2); }), 400);
  EXPECT_EQ(status_of([&] { fields.number("gatez", 0, 0, 2); }), 400);
  EXPECT_EQ(status_of([&] { fields.flag("a", false); }), 400);
  EXPECT_EQ(status_of([&] { fields.text("a", ""); }), 400);
  EXPECT_EQ(status_of([&] { fields.texts("a"); }), 400);
  try {
    Fields(body, {"a", "b", "c", "d", "e", "f", "gates"});
    FAIL();
  } catch (const ApiError& error) {
    EXPECT_STREQ(error.what(), "field 'gatez' is unknown. Did you mean 'gates'?");
  }
}

TEST(Fields, BodiesThatAreNoObject) {
  for (const char* body : {"", "[", "[]", "1", "{\"a\":1,\"a\":2}", "{\"a\":\"\xFF\"}", "{\"a\":1e999}", "{} x"}) {
    EXPECT_EQ(status_of([&] { parse_body(body); }), 400) << body;
  }
  std::string many = "{\"k\":0";
  for (int i = 0; i < 10000; ++i) many += ",\"k" + std::to_string(i) + "\":1";
  EXPECT_EQ(status_of([&] { parse_body(many + "}"); }), 400);
  EXPECT_EQ(status_of([&] { parse_body("{\"text\":\"" + std::string(20000, ':') + "\"}"); }), 0);
}

TEST(Fields, TokenIds) {
  EXPECT_EQ(token_ids(Json::parse("[0, 5, 258]"), 259, "prompt"), (std::vector<std::int64_t>{0, 5, 258}));
  for (const char* bad :
       {"[-1]", "[259]", "[1.5]", "[true]", "[\"1\"]", "[null]", "[18446744073709551615]", "[2147483648]"}) {
    EXPECT_EQ(status_of([&] { token_ids(Json::parse(bad), 259, "prompt"); }), 400) << bad;
  }
}

TEST(TokenText, SpecialTokensAreOneIdAndPartsOfCharactersHaveNames) {
  const auto tokenizer = make_byte_tokenizer();
  const TokenText text(*tokenizer, false);
  EXPECT_EQ(text.encode("</s>", true, true), std::vector<std::int64_t>{tokenizer->eos_id()});
  EXPECT_EQ(text.encode("a</s>b<s", true, true).size(), 5u);
  EXPECT_EQ(text.encode("a</s>b", true, false).size(), 6u);
  EXPECT_TRUE(text.encode("", true, true).empty());
  EXPECT_EQ(TokenText(*tokenizer, true).encode("", true, true), std::vector<std::int64_t>{tokenizer->bos_id()});
  EXPECT_TRUE(TokenText(*tokenizer, true).encode("", false, true).empty());
  EXPECT_EQ(text.name(3 + 'a'), "a");
  EXPECT_EQ(text.name(3 + 0xE2), "bytes:\\xe2");
  EXPECT_EQ(text.name(tokenizer->eos_id()), "</s>");
  EXPECT_EQ(text.name(5000), "<id 5000>");
  EXPECT_EQ(text.decode({3 + 0xC3, 3 + 0xA9, 3 + 0xE2, 5000}), "\xC3\xA9\xEF\xBF\xBD");
}

TEST(LogprobLists, EntriesAreUniqueAndOffsetsCountCharacters) {
  const auto tokenizer = make_byte_tokenizer();
  const TokenText text(*tokenizer, false);
  LogprobLists lists(text, 0);
  Json json = LogprobLists::empty();
  const std::int64_t first = 3 + 0xC3, second = 3 + 0xA9, x = 3 + 'x';
  lists.add_prompt({first, second}, {{second, -0.5f, {{x, -0.25f}}}}, json);
  // Two ids without text of their own in the vocabulary: one name, the larger value.
  lists.add({x, -1.0f, {{x, -1.0f}, {7000, -2.0f}, {7000, -3.0f}}}, json);
  EXPECT_EQ(json["text_offset"], Json::parse("[0, 0, 1]"));
  EXPECT_EQ(json["tokens"], Json::parse(R"(["bytes:\\xc3", "bytes:\\xa9", "x"])"));
  EXPECT_EQ(json["token_logprobs"], Json::parse("[null, -0.5, -1.0]"));
  EXPECT_EQ(json["top_logprobs"],
            Json::parse(R"([null, {"x": -0.25, "bytes:\\xa9": -0.5}, {"x": -1.0, "<id 7000>": -2.0}])"));
}

Conversation conversation_of(const char* messages, const Json& more = Json::object()) {
  Json body = {{"messages", Json::parse(messages)}};
  body.update(more);
  return read_conversation(Fields(body, conversation_fields));
}

TEST(Chat, MessagesAndTemplatesThatAreBuiltIn) {
  const Conversation c = conversation_of(
      R"([{"role": "developer", "content": "S"}, {"role": "user", "content": [{"type": "text",
      "text": "U"}, {"type": "text", "text": "V"}]}, {"role": "assistant", "content": "A"}, {"role": "user", "content": "W"}])");
  const auto named = [](const char* name) { return ChatTemplate::choose(name, {}); };
  EXPECT_EQ(ChatTemplate().prompt(c), "S\nUser: UV\nAssistant: A\nUser: W\nAssistant:");
  EXPECT_EQ(named("chatml").prompt({{c.messages[3]}}), "<|im_start|>user\nW<|im_end|>\n<|im_start|>assistant\n");
  EXPECT_EQ(named("llama2").prompt({{c.messages[0], c.messages[3]}}), "[INST] <<SYS>>\nS\n<</SYS>>\n\nW [/INST]");
  EXPECT_THROW(named("chatlm"), Error);
  for (const char* bad :
       {"[]", "{}", "[1]", "[{}]", R"([{"role": "user"}])", R"([{"role": "teacher", "content": "x"}])",
        R"([{"role": "user", "content": 1}])", R"([{"role": "user", "content": [{"type": "image"}]}])",
        R"([{"role": "assistant", "tool_calls": 1}])", R"([{"role": "user", "content": "x", "odd": 1}])"}) {
    EXPECT_EQ(status_of([&] { conversation_of(bad); }), 400) << bad;
  }
  const char* tool = R"([{"role": "tool", "content": "x"}])";
  EXPECT_EQ(status_of([&] { ChatTemplate().prompt(conversation_of(tool)); }), 400);
}

TEST(Chat, TemplatesOfModelsAreRun) {
  TemplateFiles files;
  files.sources.push_back({"default",
                           "{{ bos_token }}{% for m in messages %}<{{ m.role }}>{{ m.content }}</s>\n{% endfor %}"
                           "{% if add_generation_prompt %}<assistant>{{ mood }}{% endif %}"
                           "{% if messages[0].role == 'tool' %}{{ raise_exception('no tools first') }}{% endif %}",
                           "here"});
  files.sources.push_back(
      {"tool_use", "{{ tools | tojson }}{{ messages[-1].tool_calls[0].function.arguments.x }}", "t"});
  ChatTemplate chosen = ChatTemplate::choose("", files);
  const auto tokenizer = make_byte_tokenizer();
  const TokenText text(*tokenizer, true);
  chosen.complete(text);
  EXPECT_EQ(chosen.name(), "here");
  EXPECT_EQ(chosen.stop(), std::vector<std::string>{"</s>"});
  EXPECT_TRUE(chosen.puts_bos());
  const char* user = R"([{"role": "user", "content": "U"}])";
  EXPECT_EQ(chosen.prompt(conversation_of(user)), "<s><user>U</s>\n<assistant>");
  EXPECT_EQ(chosen.prompt(conversation_of(user, {{"chat_template_kwargs", {{"mood", "fine"}}}})),
            "<s><user>U</s>\n<assistant>fine");
  const Json tools = {{"tools", {{{"type", "function"}}}}};
  const char* call =
      R"([{"role": "assistant", "content": null, "tool_calls": [{"function": {"arguments": "{\"x\": 5}"}}]}])";
  EXPECT_EQ(chosen.prompt(conversation_of(call, tools)), R"([{"type": "function"}]5)");
  try {
    chosen.prompt(conversation_of(R"([{"role": "tool", "content": "x"}])"));
    FAIL();
  } catch (const ApiError& error) {
    EXPECT_EQ(error.status(), 400);
    EXPECT_STREQ(error.what(), "no tools first");
  }
  files.sources.pop_back();
  EXPECT_EQ(status_of([&] { ChatTemplate::choose("", files).prompt(conversation_of(user, tools)); }), 400);
  files.sources[0].text = "\n{% if %}";
  try {
    ChatTemplate::choose("", files);
    FAIL();
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "here: line 2: expected a value, not '%}'");
  }
}

TEST(Chat, TemplatesAreFoundBesideTheTokenizer) {
  const TestFolder folder;
  EXPECT_TRUE(read_template_files(folder.path()).sources.empty());
  write_file_atomic(folder / "tokenizer_config.json",
                    R"({"eos_token": {"content": "E"}, "chat_template": [{"name": "default", "template": "d"},
                        {"name": "rag", "template": "r"}]})");
  TemplateFiles files = read_template_files(folder.path());
  EXPECT_EQ(files.tokens, (Json{{"eos_token", "E"}}));
  const Conversation c = conversation_of(R"([{"role": "user", "content": "U"}])");
  EXPECT_EQ(ChatTemplate::choose("", files).prompt(c), "d");
  EXPECT_EQ(ChatTemplate::choose("rag", files).prompt(c), "r");
  write_file_atomic(folder / "mine.txt", "m");
  EXPECT_EQ(ChatTemplate::choose(folder / "mine.txt", files).prompt(c), "m");
  write_file_atomic(folder / "chat_template.jinja", "file");
  EXPECT_EQ(ChatTemplate::choose("", read_template_files(folder.path())).prompt(c), "file");
  std::filesystem::remove(folder / "chat_template.jinja");
  write_file_atomic(folder / "tokenizer_config.json", R"({"chat_template": 3})");
  EXPECT_THROW(read_template_files(folder.path()), Error);
}

TEST(Metrics, HistogramsAddUp) {
  Metrics metrics;
  for (const double seconds : {0.001, 0.03, 0.03, 100.0}) metrics.first_token(seconds);
  const std::string text = metrics.text(nullptr, nullptr);
  for (const char* line : {"satformer_ready 0\n", "satformer_first_token_seconds_bucket{le=\"0.005\"} 1\n",
                           "satformer_first_token_seconds_bucket{le=\"0.05\"} 3\n",
                           "satformer_first_token_seconds_bucket{le=\"60\"} 3\n",
                           "satformer_first_token_seconds_bucket{le=\"+Inf\"} 4\n",
                           "satformer_first_token_seconds_count 4\n", "satformer_request_seconds_count 0\n"}) {
    EXPECT_NE(text.find(line), std::string::npos) << line << text;
  }
}

}  // namespace
}  // namespace satformer::serve
