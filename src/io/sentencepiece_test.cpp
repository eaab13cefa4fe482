// Our ids and texts are those of the SentencePiece library, for models of every kind of normalisation.
#include <gtest/gtest.h>
#include <sentencepiece_processor.h>
#include <sentencepiece_trainer.h>

#include <map>

#include "io/tokenizer.h"

namespace satformer {
namespace {

using Settings = std::unordered_map<std::string, std::string>;

const std::vector<std::string>& sentences() {
  static const std::vector<std::string> lines = [] {
    std::vector<std::string> all;
    std::uint64_t state = 9;
    static const char* words[] = {"Attention", "reads",   "values",       "of",          "earlier",
                                  "layers,",   "(gated)", "3.14",         "caf\xC3\xA9", "\xEF\xBC\xA1\xEF\xBC\xA2",
                                  "a",         "the",     "\xE2\x80\x94", "x's"};
    for (int i = 0; i < 400; ++i) {
      std::string line;
      for (int j = 0; j < 9; ++j) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        line += std::string(line.empty() ? "" : " ") + words[(state >> 33) % 14];
      }
      all.push_back(line);
    }
    return all;
  }();
  return lines;
}

std::string train(Settings settings) {
  settings.insert({{"minloglevel", "3"}, {"hard_vocab_limit", "false"}, {"num_threads", "1"}});
  std::string model;
  const auto status = sentencepiece::SentencePieceTrainer::Train(settings, sentences(), &model);
  EXPECT_TRUE(status.ok()) << status.ToString();
  return model;
}

class Models : public ::testing::TestWithParam<Settings> {};

TEST_P(Models, EncodesAndDecodesLikeTheLibrary) {
  const std::string model = train(GetParam());
  sentencepiece::SentencePieceProcessor library;
  ASSERT_TRUE(library.LoadFromSerializedProto(model).ok());
  const auto tokenizer = make_sentencepiece_tokenizer(model, "test");
  std::vector<std::string> texts = {"",
                                    " ",
                                    "Attention",
                                    " Attention  reads ",
                                    "values\nof\n\n earlier",
                                    "\xE2\x80\x94\xE2\x80\x94 x's",
                                    "(gated)3.14",
                                    "unseen: zebra \xE6\x97\xA5\xE6\x9C\xAC",
                                    "tab\there",
                                    "<s> </s>",
                                    "\xEF\xBC\xA1 a",
                                    "   a   b"};
  texts.insert(texts.end(), sentences().begin(), sentences().begin() + 20);
  for (const std::string& text : texts) {
    const std::vector<int> expected = library.EncodeAsIds(text);
    const auto ids = tokenizer->encode(text);
    EXPECT_EQ(ids, expected) << text;
    EXPECT_EQ(tokenizer->decode(ids), library.DecodeIds(expected)) << text;
  }
}

TEST_P(Models, PiecesContinueADocument) {
  if (GetParam().contains("split_by_whitespace")) GTEST_SKIP() << "its pieces cross the borders";
  const auto tokenizer = make_sentencepiece_tokenizer(train(GetParam()), "test");
  std::string text;
  for (int i = 0; i < 6; ++i) text += sentences()[static_cast<std::size_t>(i)] + (i % 2 ? "\n" : "\n\n");
  text += "end";
  const auto whole = tokenizer->encode(text);
  for (std::size_t at = 1; at < text.size(); ++at) {
    if ((text[at] != '\n' && text[at] != ' ') || text[at - 1] == ' ' || text[at - 1] == '\n') continue;
    auto ids = tokenizer->encode(text.substr(0, at));
    const auto rest = tokenizer->encode_continued(text.substr(at));
    ids.insert(ids.end(), rest.begin(), rest.end());
    ASSERT_EQ(ids, whole) << at;
  }
}

const Settings bpe = {{"model_type", "bpe"}, {"vocab_size", "420"}, {"byte_fallback", "true"}};

Settings with(Settings base, const Settings& more) {
  for (const auto& [key, value] : more) base[key] = value;
  return base;
}

INSTANTIATE_TEST_SUITE_P(
    Kinds, Models,
    ::testing::Values(bpe,  // nmt_nfkc, collapsed spaces, prefix space
                      with(bpe, {{"normalization_rule_name", "identity"}, {"remove_extra_whitespaces", "false"}}),
                      with(bpe, {{"normalization_rule_name", "identity"},
                                 {"remove_extra_whitespaces", "false"},
                                 {"add_dummy_prefix", "false"},
                                 {"allow_whitespace_only_pieces", "true"}}),
                      with(bpe, {{"byte_fallback", "false"}, {"vocab_size", "120"}}),
                      with(bpe, {{"split_by_unicode_script", "false"}, {"split_by_number", "false"}}),
                      with(bpe, {{"split_by_whitespace", "false"}}),
                      with(bpe, {{"user_defined_symbols", "(gated),<sep>,\n\n"},
                                 {"normalization_rule_name", "identity"},
                                 {"remove_extra_whitespaces", "false"}}),
                      Settings{{"model_type", "unigram"}, {"vocab_size", "90"}},
                      Settings{{"model_type", "char"}, {"vocab_size", "60"}}));

}  // namespace
}  // namespace satformer
