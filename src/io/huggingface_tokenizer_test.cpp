#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "io/file.h"
#include "io/test_folder.h"
#include "io/tokenizer.h"
#include "io/tokenizer_export.h"
#include "io/word_patterns.h"

namespace satformer {
namespace {

namespace fs = std::filesystem;
using RawJson = nlohmann::json;

struct Expected {
  std::string text;
  std::vector<std::int32_t> ids;
};

// Made by tests/models/make_tokenizers.py with the official package; SATFORMER_TOKENIZER_CASES names a larger set.
std::string cases_folder() {
  const char* folder = std::getenv("SATFORMER_TOKENIZER_CASES");
  return folder ? folder : std::string(SATFORMER_TEST_DATA) + "/models/tokenizers";
}

std::vector<std::string> case_names() {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(cases_folder())) names.push_back(entry.path().filename().string());
  std::sort(names.begin(), names.end());
  return names;
}

std::vector<Expected> expected_of(const std::string& name) {
  std::vector<Expected> list;
  std::ifstream in(cases_folder() + "/" + name + "/expected.jsonl");
  for (std::string line; std::getline(in, line);) {
    const RawJson json = RawJson::parse(line);
    list.push_back({json["text"].get<std::string>(), json["ids"].get<std::vector<std::int32_t>>()});
  }
  EXPECT_FALSE(list.empty()) << name;
  return list;
}

std::string data_error(const auto& action) {
  try {
    action();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::data) << error.what();
    return error.what();
  }
  ADD_FAILURE() << "no error";
  return {};
}

TEST(HuggingFaceTokenizer, GivesTheIdsOfTheOfficialPackage) {
  for (const std::string& name : case_names()) {
    const auto tokenizer = load_tokenizer(cases_folder() + "/" + name);
    EXPECT_EQ(tokenizer->name(), "huggingface");
    std::size_t wrong = 0;
    for (const Expected& e : expected_of(name)) {
      for (int again = 0; again < 2; ++again) {  // the second time from the memory of words
        const auto ids = tokenizer->encode(e.text);
        if (ids != e.ids && ++wrong <= 3) {
          ADD_FAILURE() << name << ": " << RawJson(e.text).dump() << "\n  " << RawJson(ids).dump() << "\n  not "
                        << RawJson(e.ids).dump();
        }
      }
    }
    EXPECT_EQ(wrong, 0u) << name;
  }
}

TEST(HuggingFaceTokenizer, DecodesWhatItEncodes) {
  for (const std::string& name : case_names()) {
    if (name == "other" || name == "qwen2" || name == "gpt2_prefix") continue;  // they change the text
    const auto tokenizer = load_tokenizer(cases_folder() + "/" + name);
    for (const Expected& e : expected_of(name)) {
      bool plain = e.text.find("\xE2\x96\x81") == std::string::npos;
      for (const auto id : e.ids) plain = plain && !tokenizer->is_special(id);
      if (name == "gpt2") plain = plain && e.text.find("of  it") == std::string::npos;
      if (plain && !(name == "mistral" && e.text.starts_with(' '))) {
        EXPECT_EQ(tokenizer->decode(e.ids), e.text) << name;
      }
    }
  }
}

TEST(HuggingFaceTokenizer, SavesItselfWhole) {
  const TestFolder folder;
  const auto tokenizer = load_tokenizer(cases_folder() + "/gpt2");
  tokenizer->save(folder.path());
  const auto again = load_tokenizer(folder.path());
  EXPECT_EQ(again->sha256(), tokenizer->sha256());
  EXPECT_EQ(again->eos_id(), tokenizer->eos_id());
  EXPECT_EQ(again->piece(again->eos_id()), "<|endoftext|>");
  EXPECT_EQ(again->bos_id(), -1);
  EXPECT_TRUE(again->is_special(again->eos_id()));
  EXPECT_EQ(tokenizer_json(*tokenizer).text, read_file(folder / "tokenizer.json"));
}

TEST(HuggingFaceTokenizer, EndsComeFromTheSettings) {
  const TestFolder folder;
  fs::copy(cases_folder() + "/llama2/tokenizer.json", folder / "tokenizer.json");
  EXPECT_EQ(load_tokenizer(folder.path())->eos_id(), 2);
  EXPECT_EQ(load_tokenizer(folder.path())->bos_id(), 1);
  write_file_atomic(folder / "tokenizer_config.json", R"({"eos_token":{"content":"<s>"},"bos_token":null})");
  EXPECT_EQ(load_tokenizer(folder.path())->eos_id(), 1);
  EXPECT_EQ(load_tokenizer(folder.path())->bos_id(), -1);
}

TEST(HuggingFaceTokenizer, RefusesByName) {
  const RawJson whole = RawJson::parse(read_file(cases_folder() + "/gpt2/tokenizer.json"));
  const auto with = [&](const char* pointer, RawJson value) {
    RawJson json = whole;
    json[RawJson::json_pointer(pointer)] = std::move(value);
    return data_error([&] { make_huggingface_tokenizer({json.dump(), {}, "t.json"}); });
  };
  const auto names = [](const std::string& message, const char* what) {
    EXPECT_NE(message.find(what), std::string::npos) << message;
    EXPECT_NE(message.find("t.json"), std::string::npos) << message;
  };
  names(with("/normalizer", {{"type", "Precompiled"}}), "normalizer 'Precompiled'");
  names(with("/pre_tokenizer", {{"type", "UnicodeScripts"}}), "pre-tokenizer 'UnicodeScripts'");
  names(with("/decoder", {{"type", "CTC"}}), "decoder 'CTC'");
  names(with("/post_processor", {{"type", "Odd"}}), "post-processor 'Odd'");
  names(with("/model/type", "Unigram"), "model 'Unigram'");
  names(with("/model/dropout", 0.1), "dropout");
  names(with("/model/end_of_word_suffix", "</w>"), "end_of_word_suffix");
  names(with("/model/merges/0", "q"), "merges[0]");
  names(with("/model/merges/0", {"zzzz", "q"}), "zzzz");
  names(with("/model/unk_token", "nowhere"), "nowhere");
  names(with("/pre_tokenizer", {{"type", "Split"}, {"pattern", {{"Regex", "(a"}}}, {"behavior", "Isolated"}}), "(a");
  names(with("/added_tokens", RawJson::array()), "end-of-sequence");
  names(with("/model/vocab/x", "one"), "whole number");
  for (const char* bad : {"", "[]", "{", "{}", R"({"model":3})"}) {
    names(data_error([&] { make_huggingface_tokenizer({bad, {}, "t.json"}); }), "t.json");
  }
}

// The scanners against PCRE2 on random texts of characters that the patterns tell apart.
TEST(WordPatterns, ScannersAgreeWithPcre) {
  const std::vector<std::string> characters = {"a",
                                               "B",
                                               "s",
                                               "T",
                                               "'",
                                               "l",
                                               "r",
                                               "e",
                                               " ",
                                               " ",
                                               "\n",
                                               "\r",
                                               "\t",
                                               "1",
                                               "2",
                                               "!",
                                               "-",
                                               "\xC5\xBF",
                                               "\xC3\xA9",
                                               "\xCC\x81",
                                               "\xC2\xBD",
                                               "\xC2\xA0",
                                               "\xE3\x80\x80",
                                               "\xF0\x9F\x98\x80"};
  std::uint64_t state = 5;
  for (const std::string_view regex : {gpt2_pattern, llama3_pattern, qwen2_pattern}) {
    const auto scanner = make_word_pattern(std::string(regex), "test");
    const auto pcre = make_pcre_pattern(std::string(regex), "test");
    ASSERT_TRUE(scanner->covers());
    ASSERT_FALSE(pcre->covers());
    for (int i = 0; i < 20'000; ++i) {
      std::string text;
      for (int n = i % 12; n >= 0; --n) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        text += characters[(state >> 33) % characters.size()];
      }
      std::vector<std::size_t> ours, theirs;
      scanner->each_match(text, [&](std::size_t begin, std::size_t end) { ours.insert(ours.end(), {begin, end}); });
      pcre->each_match(text, [&](std::size_t begin, std::size_t end) { theirs.insert(theirs.end(), {begin, end}); });
      ASSERT_EQ(ours, theirs) << RawJson(text).dump() << " " << regex;
    }
  }
}

TEST(TokenizerJson, ByteTokenizerKeepsItsIds) {
  const auto bytes = make_byte_tokenizer();
  const auto again = make_huggingface_tokenizer({tokenizer_json(*bytes).text, {}, "bytes"});
  EXPECT_EQ(again->vocab_size(), 259);
  EXPECT_EQ(again->eos_id(), 2);
  for (const std::string text : {"", "a b", "caf\xC3\xA9 \xF0\x9F\x98\x80\n\t", " 12 "}) {
    EXPECT_EQ(again->encode(text), bytes->encode(text)) << text;
    EXPECT_EQ(again->decode(again->encode(text)), text);
  }
  EXPECT_EQ(again->encode("x</s>"), (std::vector<std::int32_t>{3 + 'x', 2}));
}

TEST(TokenizerJson, SentencePieceModelKeepsItsIds) {
  std::vector<Expected> lines = expected_of("gpt2");
  std::vector<std::string> texts;
  for (int copy = 0; copy < 3; ++copy) {
    for (const Expected& e : lines) texts.push_back(e.text);
  }
  const auto model = make_sentencepiece_tokenizer(train_sentencepiece(texts, 1100), "test");
  const TokenizerJson translated = tokenizer_json(*model);
  ASSERT_EQ(translated.why_not, "");
  const auto again = make_huggingface_tokenizer({translated.text, {}, "translated"});
  EXPECT_EQ(again->vocab_size(), model->vocab_size());
  EXPECT_EQ(again->eos_id(), 2);
  for (const Expected& e : lines) {
    if (e.text.find("</s>") != std::string::npos || e.text.find("<s>") != std::string::npos) continue;
    const auto ids = again->encode(e.text);
    EXPECT_EQ(ids, model->encode(e.text)) << RawJson(e.text).dump();
    EXPECT_EQ(again->decode(ids), model->decode(ids));
  }
}

}  // namespace
}  // namespace satformer
