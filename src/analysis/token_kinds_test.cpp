#include "analysis/token_kinds.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/test_error.h"

namespace satformer {
namespace {

std::vector<std::string> units(const std::string& text) {
  std::vector<std::string> parts;
  std::size_t begin = 0;
  for (const std::size_t end : text_units(text)) {
    parts.push_back(text.substr(begin, end - begin));
    begin = end;
  }
  return parts;
}

TEST(TextUnits, WordsPunctuationAndMarkup) {
  using Parts = std::vector<std::string>;
  EXPECT_EQ(units("Don't stop..."), (Parts{"Don't", " ", "stop", "..."}));
  EXPECT_EQ(units("a- b"), (Parts{"a", "-", " ", "b"}));
  EXPECT_EQ(units("<b>x</b>&amp;y < z"), (Parts{"<b>", "x", "</b>", "&amp;", "y", " ", "<", " ", "z"}));
  EXPECT_EQ(units("caf\xC3\xA9 \xE2\x80\x94\n\n3.5"),
            (Parts{"caf\xC3\xA9", " ", "\xE2\x80\x94", "\n\n", "3", ".", "5"}));
  EXPECT_EQ(units("\xFF\xFFx"), (Parts{"\xFF\xFF", "x"}));
  EXPECT_TRUE(units("").empty());
}

std::vector<std::string> kinds_of(TokenKinds& kinds, const std::vector<std::int64_t>& tokens) {
  std::vector<std::string> names;
  for (const std::uint8_t kind : kinds.of(0, tokens)) names.push_back(kinds.names()[kind]);
  return names;
}

std::vector<std::int64_t> bytes(const Tokenizer& tokenizer, const std::string& text) {
  const std::vector<std::int32_t> ids = tokenizer.encode(text);
  return {ids.begin(), ids.end()};
}

TEST(RuleKinds, EachByteHasTheKindOfItsWord) {
  const auto tokenizer = make_byte_tokenizer();
  const auto kinds = make_rule_kinds(*tokenizer, default_kind_rules(), "x");
  std::vector<std::int64_t> tokens = bytes(*tokenizer, "The owl,");
  tokens.push_back(tokenizer->eos_id());
  const std::string f = "functional", s = "semantic", p = "structural";
  EXPECT_EQ(kinds_of(*kinds, tokens), (std::vector<std::string>{f, f, f, p, s, s, s, p, p}));
  EXPECT_EQ(kinds_of(*kinds, bytes(*tokenizer, "\xC3\xA9\n")), (std::vector<std::string>{s, s, p}));
}

TEST(RuleKinds, PiecesAreJoinedToWords) {
  const std::string sentence = "the lamp and the table are there; another lamplight tablecloth\n";
  const std::vector<std::string> texts(40, sentence);
  const auto tokenizer = make_sentencepiece_tokenizer(train_sentencepiece(texts, 300), "x");
  const auto kinds = make_rule_kinds(*tokenizer, default_kind_rules(), "x");
  const std::string text = "another lamp and the tablecloth.";
  const std::vector<std::int32_t> ids = tokenizer->encode(text);
  const auto names = kinds_of(*kinds, {ids.begin(), ids.end()});
  // Whatever the pieces are, their kinds follow the words that hold them.
  std::string seen, expected;
  for (std::size_t i = 0; i < ids.size(); ++i) {
    std::string piece = tokenizer->token_bytes(ids[i], i == 0);
    if (piece == " ") continue;
    seen += std::string(piece.size() - (piece[0] == ' ' ? 1 : 0), names[i][1]);
  }
  for (const auto& [word, kind] : std::vector<std::pair<std::string, char>>{
           {"another", 'u'}, {"lamp", 'e'}, {"and", 'u'}, {"the", 'u'}, {"tablecloth", 'e'}, {".", 't'}}) {
    expected += std::string(word.size(), kind);
  }
  EXPECT_EQ(seen, expected);
}

TEST(RuleKinds, AFileReplacesThem) {
  const auto tokenizer = make_byte_tokenizer();
  const Json rules = {{"rules",
                       {{{"kind", "number"}, {"pattern", "^[0-9]+$"}},
                        {{"kind", "pet"}, {"words", {"Cat"}}},
                        {{"kind", "late"}, {"words", {"cat", "x"}}}}},
                      {"otherwise", "rest"},
                      {"special", "end"}};
  const auto kinds = make_rule_kinds(*tokenizer, rules, "x");
  EXPECT_EQ(kinds->names(), (std::vector<std::string>{"number", "pet", "late", "rest", "end"}));
  EXPECT_EQ(kinds_of(*kinds, bytes(*tokenizer, "7 CAT")),
            (std::vector<std::string>{"number", "rest", "pet", "pet", "pet"}));
  EXPECT_EQ(kinds_of(*kinds, {tokenizer->eos_id()}), (std::vector<std::string>{"end"}));
}

TEST(RuleKinds, MalformedRulesAreToldWithTheirPlace) {
  const auto tokenizer = make_byte_tokenizer();
  const auto error = [&](const std::string& text) {
    return error_text([&] { make_rule_kinds(*tokenizer, Json::parse(text), "k.json"); }, ExitCode::config);
  };
  const auto expect = [&](const std::string& text, const std::string& part) {
    EXPECT_NE(error(text).find(part), std::string::npos) << text << "\n" << error(text);
    EXPECT_NE(error(text).find("k.json"), std::string::npos) << text;
  };
  expect("[]", "expected an object");
  expect("{}", "'rules'");
  expect(R"({"rules": []})", "'otherwise'");
  expect(R"({"rulez": [], "otherwise": "x"})", "'rules'");
  expect(R"({"rules": [{"kind": "a"}], "otherwise": "x"})", "rule 1 needs either");
  expect(R"({"rules": [{"kind": "a", "word": []}], "otherwise": "x"})", "'words'");
  expect(R"({"rules": [{"kind": "a", "words": [3]}], "otherwise": "x"})", "not 3");
  expect(R"({"rules": [{"kind": "a", "pattern": "("}], "otherwise": "x"})", "'('");
  expect(R"({"kinds": ["alpha"], "rules": [], "otherwise": "alpa"})", "'alpha'");
  expect(R"({"rules": [], "otherwise": "a/b"})", "a/b");
}

TEST(RuleKinds, AnEndlessPatternEnds) {
  const auto tokenizer = make_byte_tokenizer();
  const Json rules = {{"rules", {{{"kind", "a"}, {"pattern", "^(a+)+$"}}, {{"kind", "c"}, {"pattern", "b$"}}}},
                      {"otherwise", "rest"}};
  const auto kinds = make_rule_kinds(*tokenizer, rules, "x");
  const auto names = kinds_of(*kinds, bytes(*tokenizer, std::string(60, 'a') + "b"));
  EXPECT_EQ(names.front(), "c");  // the first rule has found nothing
}

}  // namespace
}  // namespace satformer
