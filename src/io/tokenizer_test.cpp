#include "io/tokenizer.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "base/error.h"
#include "io/file.h"
#include "io/test_folder.h"

namespace satformer {
namespace {

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

// English-like text of `words` words, the same every time.
std::string sample_text(int words) {
  static const char* parts[] = {"the", "sat", "former", "gate", "value", "re", "turn", "lay", "er", "er", "ing", "s"};
  std::string text;
  std::uint64_t state = 1;
  for (int i = 0; i < words; ++i) {
    for (std::uint64_t piece = 0, pieces = 1 + (state >> 40) % 3; piece < pieces; ++piece) {
      state = state * 6364136223846793005u + 1442695040888963407u;
      text += parts[(state >> 33) % 12];
    }
    text += i % 11 == 10 ? ".\n" : i % 7 == 6 ? ",  " : " ";
  }
  return text;
}

const std::string& trained_model() {
  static const std::string model = train_sentencepiece(std::vector<std::string>{sample_text(20'000)}, 400);
  return model;
}

TEST(ByteTokenizer, KeepsEveryByte) {
  const auto tokenizer = make_byte_tokenizer();
  std::string all;
  for (int byte = 0; byte < 256; ++byte) all += static_cast<char>(byte);
  const auto ids = tokenizer->encode(all);
  ASSERT_EQ(ids.size(), 256u);
  EXPECT_EQ(ids[65], 68);
  EXPECT_EQ(tokenizer->decode(ids), all);
  EXPECT_EQ(tokenizer->vocab_size(), 259);
  EXPECT_EQ(tokenizer->eos_id(), 2);
  EXPECT_EQ(tokenizer->piece(2), "</s>");
  EXPECT_EQ(tokenizer->piece(68), "A");
  EXPECT_EQ(tokenizer->piece(13), "<0x0A>");
  EXPECT_EQ(tokenizer->decode(std::vector<std::int32_t>{1, 68, 2}), "A");
  EXPECT_NE(data_error([&] { tokenizer->decode(std::vector<std::int32_t>{259}); }).find("259"), std::string::npos);
  EXPECT_NE(data_error([&] { tokenizer->piece(-1); }).find("-1"), std::string::npos);
}

TEST(LoadTokenizer, FoldersOfBothKinds) {
  const TestFolder folder;
  make_byte_tokenizer()->save(folder.path());
  const auto bytes = load_tokenizer(folder.path());
  EXPECT_EQ(bytes->name(), "byte");
  EXPECT_EQ(bytes->sha256(), sha256_file(folder / "tokenizer.json"));
  make_sentencepiece_tokenizer(trained_model(), "test")->save(folder.path());
  const auto trained = load_tokenizer(folder.path());
  EXPECT_EQ(trained->name(), "sentencepiece");
  EXPECT_EQ(trained->sha256(), sha256_file(folder / "tokenizer.model"));
  EXPECT_EQ(load_tokenizer(folder / "tokenizer.model")->sha256(), trained->sha256());
  make_byte_tokenizer()->save(folder.path());
  EXPECT_EQ(load_tokenizer(folder.path())->name(), "byte");
}

TEST(LoadTokenizer, RefusesWhatIsNone) {
  const TestFolder folder;
  EXPECT_NE(data_error([&] { load_tokenizer(folder / "x"); }).find("neither 'byte'"), std::string::npos);
  EXPECT_NE(data_error([&] { load_tokenizer(folder.path()); }).find("neither tokenizer.model"), std::string::npos);
  write_file_atomic(folder / "tokenizer.json", R"({"kind":"words"})");
  EXPECT_NE(data_error([&] { load_tokenizer(folder.path()); }).find("must be \"byte\""), std::string::npos);
  for (const std::string& contents :
       {std::string(), std::string("just some text\nof two lines\n"), trained_model().substr(0, 1000),
        std::string(5000, '\xFF'), std::string(100, '\0')}) {
    write_file_atomic(folder / "t.model", contents);
    EXPECT_NE(data_error([&] { load_tokenizer(folder / "t.model"); }).find("t.model"), std::string::npos);
  }
}

TEST(LoadTokenizer, SurvivesDamagedModels) {
  for (std::size_t at = 0; at < trained_model().size(); at += 37) {
    std::string damaged = trained_model();
    damaged[at] = static_cast<char>(damaged[at] ^ 0x55);
    try {
      make_sentencepiece_tokenizer(damaged, "damaged")->encode("the gate");
    } catch (const Error&) {
    }
  }
}

TEST(TrainedTokenizer, IdsOfSpecialTokensAndSize) {
  const auto tokenizer = make_sentencepiece_tokenizer(trained_model(), "test");
  EXPECT_EQ(tokenizer->vocab_size(), 400);
  EXPECT_EQ(tokenizer->bos_id(), 1);
  EXPECT_EQ(tokenizer->eos_id(), 2);
  EXPECT_EQ(tokenizer->piece(0), "<unk>");
  EXPECT_EQ(tokenizer->decode(std::vector<std::int32_t>{1, 2}), "");
  EXPECT_LT(tokenizer->encode(sample_text(100)).size(), sample_text(100).size() / 2);
}

TEST(TrainedTokenizer, KeepsTextAsItIs) {
  const auto tokenizer = make_sentencepiece_tokenizer(trained_model(), "test");
  for (const std::string text :
       {"", " ", "\n", "the gate", " the gate", "the  gate   s", "a\n\nb\n", "\ta\t b", "tail \n ", "</s> <unk>",
        "\xF0\x9F\x98\x80 caf\xC3\xA9 \xE6\x97\xA5\xE6\x9C\xAC", "lone\rreturn", "\xE2\x80\x9Cquoted\xE2\x80\x9D"}) {
    const auto ids = tokenizer->encode(text);
    EXPECT_EQ(tokenizer->decode(ids), text);
    for (const auto id : ids) EXPECT_GE(id, 3) << text;
  }
  const std::string zero("nul \0 x", 7);
  EXPECT_EQ(tokenizer->decode(tokenizer->encode(zero)), zero);
  const std::string text = sample_text(3000);
  EXPECT_EQ(tokenizer->decode(tokenizer->encode(text)), text);
}

TEST(TrainedTokenizer, InvalidUtf8BecomesReplacementCharacters) {
  const auto tokenizer = make_sentencepiece_tokenizer(trained_model(), "test");
  EXPECT_EQ(tokenizer->decode(tokenizer->encode("a\xFF\x80z")), "a\xEF\xBF\xBD\xEF\xBF\xBDz");
  EXPECT_EQ(tokenizer->decode(tokenizer->encode("cut \xE6\x97")), "cut \xEF\xBF\xBD\xEF\xBF\xBD");
}

TEST(TrainedTokenizer, PiecesContinueADocument) {
  const auto tokenizer = make_sentencepiece_tokenizer(trained_model(), "test");
  const std::string text = sample_text(500);
  const auto whole = tokenizer->encode(text);
  for (std::size_t at = 1; at < text.size(); ++at) {
    if ((text[at] != '\n' && text[at] != ' ') || text[at - 1] == ' ' || text[at - 1] == '\n') continue;
    auto ids = tokenizer->encode(text.substr(0, at));
    const auto rest = tokenizer->encode_continued(text.substr(at));
    ids.insert(ids.end(), rest.begin(), rest.end());
    ASSERT_EQ(ids, whole) << at;
  }
}

TEST(TrainSentencepiece, SameBytesEveryTime) {
  EXPECT_EQ(train_sentencepiece(std::vector<std::string>{sample_text(20'000)}, 400), trained_model());
}

TEST(TrainSentencepiece, LongLinesAndOddBytesAreUsed) {
  std::string line = sample_text(20'000);
  for (char& c : line) c = c == '\n' ? ' ' : c;
  const std::vector<std::string> texts = {line, std::string(100'000, 'z'), "\xFF\xFE\t\t\n\n",
                                          std::string(9000, '\x80'), std::string("a\0b", 3)};
  EXPECT_EQ(make_sentencepiece_tokenizer(train_sentencepiece(texts, 350), "test")->vocab_size(), 350);
}

TEST(TrainSentencepiece, SaysWhenTheTextIsTooSmall) {
  const std::string message =
      data_error([] { train_sentencepiece(std::vector<std::string>{"one two three"}, 5000); });
  EXPECT_NE(message.find("too small for a tokenizer of 5000"), std::string::npos) << message;
  EXPECT_THROW(train_sentencepiece(std::vector<std::string>{"a b"}, 259), Error);
  EXPECT_THROW(train_sentencepiece(std::vector<std::string>{}, 400), Error);
  EXPECT_THROW(train_sentencepiece(std::vector<std::string>{""}, 400), Error);
}

// Nothing of where the library was compiled.
TEST(TrainSentencepiece, MessagesNameNoSourceFile) {
  std::string characters;
  for (int i = 0; i < 600; ++i) {  // U+4E00 and following
    const int c = 0x4E00 + i;
    characters += {static_cast<char>(0xE0 | (c >> 12)), static_cast<char>(0x80 | ((c >> 6) & 0x3F)),
                   static_cast<char>(0x80 | (c & 0x3F))};
    if (i % 20 == 19) characters += '\n';
  }
  const std::string message =
      data_error([&] { train_sentencepiece(std::vector<std::string>{characters + characters}, 300); });
  EXPECT_NE(message.find("ask for at least 8"), std::string::npos) << message;
  EXPECT_EQ(message.find(".cc("), std::string::npos) << message;
  EXPECT_EQ(sentencepiece_message("src/a_b.cc(604) [(x[i]) == (y)] too high (300)"), "too high (300)");
  EXPECT_EQ(sentencepiece_message("src/a.cc(12) [!sentences_.empty()] "),
            "SentencePiece asks for !sentences_.empty()");
  EXPECT_EQ(sentencepiece_message("/src/x/util.h(7) [s[0"), "SentencePiece asks for s[");
  EXPECT_EQ(sentencepiece_message("could not parse (a) [b]"), "could not parse (a) [b]");
  EXPECT_EQ(sentencepiece_message(""), "");
}

TEST(StreamDecoder, EmitsWholeCharacters) {
  const auto tokenizer = make_byte_tokenizer();
  const std::string text = "a\xC3\xA9\xF0\x9F\x98\x80z";
  StreamDecoder decoder(*tokenizer);
  std::vector<std::string> parts;
  for (const auto id : tokenizer->encode(text)) parts.push_back(decoder.push(id));
  EXPECT_EQ(parts, (std::vector<std::string>{"a", "", "\xC3\xA9", "", "", "", "\xF0\x9F\x98\x80", "z"}));
  EXPECT_EQ(decoder.finish(), "");
}

TEST(StreamDecoder, ReplacesBrokenBytes) {
  const auto tokenizer = make_byte_tokenizer();
  StreamDecoder decoder(*tokenizer);
  std::string text;
  for (const auto id : tokenizer->encode("\xE6\x97x\xFF\xC3")) text += decoder.push(id);
  EXPECT_EQ(text, "\xEF\xBF\xBD\xEF\xBF\xBDx\xEF\xBF\xBD");
  EXPECT_EQ(decoder.finish(), "\xEF\xBF\xBD");
  EXPECT_EQ(decoder.finish(), "");
}

TEST(StreamDecoder, GivesTheTextOfDecode) {
  const auto tokenizer = make_sentencepiece_tokenizer(trained_model(), "test");
  const std::string text = " the  gate\n\xF0\x9F\x98\x80 " + sample_text(50);
  StreamDecoder decoder(*tokenizer);
  std::string streamed = decoder.push(tokenizer->bos_id());
  for (const auto id : tokenizer->encode(text)) streamed += decoder.push(id);
  EXPECT_EQ(streamed + decoder.finish(), text);
}

TEST(Utf8Length, FollowsTheStandard) {
  EXPECT_EQ(utf8_length("a"), 1);
  EXPECT_EQ(utf8_length("\xC3\xA9"), 2);
  EXPECT_EQ(utf8_length("\xC3"), 0);
  EXPECT_EQ(utf8_length("\xF0\x9F\x98"), 0);
  for (const char* bad : {"\x80", "\xC0\x80", "\xE0\x80", "\xED\xA0", "\xF4\x90", "\xF5", "\xC3z"}) {
    EXPECT_EQ(utf8_length(bad), -1) << bad;
  }
}

}  // namespace
}  // namespace satformer
