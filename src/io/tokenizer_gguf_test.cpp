#include "io/tokenizer_gguf.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "io/file.h"

namespace satformer {
namespace {

template <class T>
const T& value_of(const GgufMetadata& metadata, const std::string& key) {
  for (const auto& [name, value] : metadata) {
    if (name == key) return std::get<T>(value);
  }
  throw std::runtime_error("no " + key);
}

std::unique_ptr<Tokenizer> recorded(const std::string& name) {
  return load_tokenizer(SATFORMER_TEST_DATA "/models/tokenizers/" + name);
}

std::string refusal(const Tokenizer& tokenizer) {
  try {
    gguf_tokenizer(tokenizer, 100'000);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::data);
    return error.what();
  }
  return {};
}

TEST(GgufTokenizer, BytesAreGpt2WithoutMerges) {
  const GgufTokenizer made = gguf_tokenizer(*make_byte_tokenizer(), 261);
  EXPECT_EQ(value_of<std::string>(made.metadata, "tokenizer.ggml.model"), "gpt2");
  const auto& tokens = value_of<std::vector<std::string>>(made.metadata, "tokenizer.ggml.tokens");
  const auto& types = value_of<std::vector<std::int32_t>>(made.metadata, "tokenizer.ggml.token_type");
  ASSERT_EQ(tokens.size(), 261u);
  ASSERT_EQ(types.size(), 261u);
  EXPECT_EQ(tokens[2], "</s>");
  EXPECT_EQ(types[2], 3);
  EXPECT_EQ(tokens[3 + ' '], "\xC4\xA0");
  EXPECT_EQ(types[3 + ' '], 1);
  EXPECT_EQ(tokens[260], "[PAD260]");
  EXPECT_EQ(types[260], 5);
  EXPECT_EQ(value_of<std::uint32_t>(made.metadata, "tokenizer.ggml.eos_token_id"), 2u);
  EXPECT_FALSE(value_of<bool>(made.metadata, "tokenizer.ggml.add_bos_token"));
  EXPECT_THROW(gguf_tokenizer(*make_byte_tokenizer(), 258), Error);
}

TEST(GgufTokenizer, WordsAreCutAsTheNameSays) {
  for (const auto& [name, pre] :
       {std::pair{"gpt2", "gpt-2"}, std::pair{"llama3", "llama-bpe"}, std::pair{"qwen2", "qwen2"}}) {
    const auto tokenizer = recorded(name);
    const GgufTokenizer made = gguf_tokenizer(*tokenizer, tokenizer->vocab_size());
    EXPECT_EQ(value_of<std::string>(made.metadata, "tokenizer.ggml.pre"), pre);
    EXPECT_GT(value_of<std::vector<std::string>>(made.metadata, "tokenizer.ggml.merges").size(), 100u);
    EXPECT_EQ(made.nfc_alone, std::string(name) == "qwen2");
  }
  EXPECT_NE(refusal(*recorded("gpt2_prefix")).find("add_prefix_space"), std::string::npos);
  EXPECT_NE(refusal(*recorded("other")).find("cuts texts into words"), std::string::npos);
  EXPECT_NE(refusal(*recorded("llama2")).find("no BPE over bytes"), std::string::npos);
}

TEST(GgufTokenizer, SentencePieceKeepsScoresAndTypes) {
  const std::vector<std::string> texts = {"the cat sat on the mat and the dog ran to the cat",
                                          "a cat and a dog on a mat"};
  const auto tokenizer = make_sentencepiece_tokenizer(train_sentencepiece(texts, 280), "test");
  const GgufTokenizer made = gguf_tokenizer(*tokenizer, 280);
  EXPECT_EQ(value_of<std::string>(made.metadata, "tokenizer.ggml.model"), "llama");
  const auto& types = value_of<std::vector<std::int32_t>>(made.metadata, "tokenizer.ggml.token_type");
  const auto& tokens = value_of<std::vector<std::string>>(made.metadata, "tokenizer.ggml.tokens");
  EXPECT_EQ((std::vector<std::int32_t>{types[0], types[1], types[2], types[3]}),
            (std::vector<std::int32_t>{2, 3, 3, 6}));
  EXPECT_EQ(tokens[3], "<0x00>");
  EXPECT_EQ(value_of<std::vector<float>>(made.metadata, "tokenizer.ggml.scores").size(), tokens.size());
  EXPECT_EQ(value_of<std::uint32_t>(made.metadata, "tokenizer.ggml.unknown_token_id"), 0u);
}

}  // namespace
}  // namespace satformer
