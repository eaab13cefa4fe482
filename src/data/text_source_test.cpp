#include "data/text_source.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "base/error.h"
#include "base/test_error.h"
#include "data/test_text.h"
#include "io/test_folder.h"

namespace satformer {
namespace {

namespace fs = std::filesystem;

std::string data_error(const auto& action) { return error_text(action, ExitCode::data); }

InputList find(const std::vector<std::string>& patterns, const std::vector<std::string>& exclude = {}) {
  return find_inputs(patterns, {.exclude = exclude, .format = {}});
}

std::string whole(const std::string& path) {
  TextStream stream(find({path}).files.at(0));
  std::string text;
  while (stream.read(text)) {
  }
  return text;
}

std::vector<std::string> documents(const std::string& path, const DocumentRules& rules) {
  BatchReader reader(find({path}).files, rules);
  std::vector<std::string> all;
  std::string document;
  for (TextBatch batch; reader.next(batch);) {
    for (const TextItem& item : batch.items) {
      EXPECT_EQ(item.continued, !document.empty());
      EXPECT_LE(item.size, max_piece_bytes);
      document += batch.view(item);
      if (item.ends_document) all.push_back(std::exchange(document, {}));
    }
  }
  EXPECT_TRUE(document.empty());
  return all;
}

TEST(FindInputs, FilesFoldersAndGlobsEachOnce) {
  const TestFolder folder;
  fs::create_directories(folder / "a/b");
  for (const char* name : {"a/2.txt", "a/1.jsonl", "a/b/3.json", "a/4.md", "a/b/5.txt.gz", "a/6.bin"}) {
    write_file_atomic(folder / name, "x");
  }
  const InputList all = find({folder / "a"});
  ASSERT_EQ(all.files.size(), 4u);
  EXPECT_EQ(all.files[0].path, folder / "a/1.jsonl");
  EXPECT_EQ(all.files[0].format, TextFormat::json_lines);
  EXPECT_EQ(all.files[1].format, TextFormat::plain);
  EXPECT_EQ(all.files[3].compression, Compression::gzip);
  EXPECT_EQ(all.unrecognised, 2);
  EXPECT_EQ(all.duplicates, 0);
  const InputList twice = find({folder / "a/*.txt", folder / "a/b/../2.txt", folder / "a", folder / "a/4.md"});
  EXPECT_EQ(twice.files.size(), 5u);
  EXPECT_EQ(twice.files[0].path, folder / "a/2.txt");
  EXPECT_EQ(twice.duplicates, 2);
  EXPECT_EQ(find({folder / "a"}, {folder / "a/b/3.json"}).files.size(), 3u);
}

TEST(FindInputs, WhatIsNotThereIsNamed) {
  const TestFolder folder;
  EXPECT_NE(data_error([&] { find({folder / "*.txt"}); }).find("*.txt' matches no file"), std::string::npos);
  EXPECT_NE(data_error([&] { find({folder.path()}); }).find("no .txt, .jsonl or .json"), std::string::npos);
  EXPECT_NE(data_error([&] { find({folder / "missing.txt"}); }).find("missing.txt'"), std::string::npos);
  write_file_atomic(folder / "picture.png", std::string("\x89PNG\0\0", 6));
  EXPECT_NE(data_error([&] { find({folder / "picture.png"}); }).find("not a text file"), std::string::npos);
  write_file_atomic(folder / "[odd].txt", "x");
  EXPECT_EQ(find({folder / "[odd].txt"}).files.size(), 1u);
}

TEST(TextStream, MarkAndLineEndsLeaveTheTextAlone) {
  const TestFolder folder;
  const std::string text = some_text(700'000);
  write_file_atomic(folder / "plain.txt", text);
  write_file_atomic(folder / "other.txt", "\xEF\xBB\xBF" + with_crlf(text));
  write_file_atomic(folder / "plain.txt.gz", gzip(text));
  write_file_atomic(folder / "other.dict.dz", gzip("\xEF\xBB\xBF" + with_crlf(text)));
  write_file_atomic(folder / "members.txt.gz",
                    gzip(text.substr(0, 1000)) + gzip("") + gzip(text.substr(1000)) + std::string(512, '\0'));
  for (const char* name : {"plain.txt", "other.txt", "plain.txt.gz", "other.dict.dz", "members.txt.gz"}) {
    EXPECT_TRUE(whole(folder / name) == text) << name;
  }
  write_file_atomic(folder / "lone.txt", "a\rb\r\r\nc\r");
  EXPECT_EQ(whole(folder / "lone.txt"), "a\rb\r\nc\r");
  write_file_atomic(folder / "short.txt", "\xEF\xBB");
  EXPECT_NE(data_error([&] { whole(folder / "short.txt"); }).find("short.txt:1: not UTF-8: 0xEF at byte 1"),
            std::string::npos);
}

// A carriage return as the last byte of a block that is read.
TEST(TextStream, LineEndsAcrossBlocks) {
  const TestFolder folder;
  const std::string start(256 * 1024 - 1, 'x');
  write_file_atomic(folder / "a.txt", start + "\r\nb");
  EXPECT_TRUE(whole(folder / "a.txt") == start + "\nb");
  write_file_atomic(folder / "a.txt", start + "\rb");
  EXPECT_TRUE(whole(folder / "a.txt") == start + "\rb");
}

TEST(TextStream, DamagedGzipIsNamed) {
  const TestFolder folder;
  const std::string packed = gzip(some_text(300'000));
  const std::string path = folder / "x.txt.gz";
  for (const std::size_t size :
       {std::size_t{0}, std::size_t{1}, std::size_t{9}, packed.size() / 2, packed.size() - 1}) {
    write_file_atomic(path, packed.substr(0, size));
    EXPECT_NE(data_error([&] { whole(path); }).find("x.txt.gz: the gzip data is cut off"), std::string::npos) << size;
  }
  std::string damaged = packed;
  damaged[packed.size() / 2] = static_cast<char>(damaged[packed.size() / 2] ^ 0x10);
  write_file_atomic(path, damaged);
  EXPECT_NE(data_error([&] { whole(path); }).find("x.txt.gz: the gzip data is corrupt"), std::string::npos);
  write_file_atomic(path, "plain text under a wrong name");
  EXPECT_NE(data_error([&] { whole(path); }).find("corrupt: incorrect header"), std::string::npos);
  write_file_atomic(path, packed + "trailing");
  EXPECT_NE(data_error([&] { whole(path); }).find("corrupt"), std::string::npos);
}

TEST(BatchReader, AFileIsOneDocument) {
  const TestFolder folder;
  const std::string text = some_text(500'000);
  write_file_atomic(folder / "a.txt", text);
  EXPECT_EQ(documents(folder / "a.txt", {}), std::vector<std::string>{text});
  write_file_atomic(folder / "empty.txt", "");
  EXPECT_EQ(documents(folder / "empty.txt", {}), std::vector<std::string>{""});
}

TEST(BatchReader, SeparatorLines) {
  const TestFolder folder;
  const DocumentRules rules{.separator = "=="};
  const auto split = [&](const std::string& text) {
    write_file_atomic(folder / "a.txt", text);
    return documents(folder / "a.txt", rules);
  };
  using Texts = std::vector<std::string>;
  EXPECT_EQ(split("a\n==\nb\nc\n"), (Texts{"a\n", "b\nc\n"}));
  EXPECT_EQ(split("a\r\n==\r\nb"), (Texts{"a\n", "b"}));
  EXPECT_EQ(split("a\n==\n"), (Texts{"a\n"}));
  EXPECT_EQ(split("a\n=="), (Texts{"a\n"}));
  EXPECT_EQ(split("==\na\n==\n==\nb"), (Texts{"", "a\n", "", "b"}));
  EXPECT_EQ(split("a ==\n== \n===\n"), (Texts{"a ==\n== \n===\n"}));
  EXPECT_EQ(split(""), (Texts{""}));
  const std::string long_line = std::string(400'000, 'y') + "==\n";
  EXPECT_EQ(split(long_line + "==\nz"), (Texts{long_line, "z"}));
}

TEST(BatchReader, BlankLinesAfterEnoughBytes) {
  const TestFolder folder;
  const auto split = [&](const std::string& text, std::int64_t bytes) {
    write_file_atomic(folder / "a.txt", text);
    return documents(folder / "a.txt", {.separator = {}, .min_document_bytes = bytes});
  };
  using Texts = std::vector<std::string>;
  EXPECT_EQ(split("a\n\nb\n \t\n\nc\n\n", 1), (Texts{"a\n", "b\n", "c\n"}));
  EXPECT_EQ(split("a\n\nb\n\nc", 4), (Texts{"a\n\nb\n", "c"}));
  EXPECT_EQ(split("\n\na\n", 1), (Texts{"a\n"}));
  EXPECT_EQ(split("\n\n", 1), (Texts{""}));
  const std::string text = some_text(600'000);
  std::string joined;
  for (const std::string& document : split(text, 2000)) {
    EXPECT_TRUE(document.size() >= 2000 || text.ends_with(document));
    joined += document;
  }
  std::string expected = text;
  std::erase(expected, '\n');
  std::erase(joined, '\n');
  EXPECT_TRUE(joined == expected);
}

TEST(BatchReader, JsonLinesAreNumbered) {
  const TestFolder folder;
  write_file_atomic(folder / "a.jsonl", "{\"a\":1}\n\n  \n{\"b\":2}\r\n{\"c\":3}");
  BatchReader reader(find({folder / "a.jsonl"}).files, {});
  TextBatch batch;
  ASSERT_TRUE(reader.next(batch));
  ASSERT_EQ(batch.items.size(), 3u);
  EXPECT_EQ(batch.view(batch.items[1]), "{\"b\":2}");
  EXPECT_EQ(batch.items[1].line, 4u);
  EXPECT_EQ(batch.view(batch.items[2]), "{\"c\":3}");
  EXPECT_EQ(batch.items[2].line, 5u);
  EXPECT_FALSE(reader.next(batch));
}

TEST(BatchReader, LongJsonLinesAreKeptWhole) {
  const TestFolder folder;
  const std::string line(3'000'000, 'x');
  write_file_atomic(folder / "a.jsonl", line + "\ny\n");
  BatchReader reader(find({folder / "a.jsonl"}).files, {});
  std::vector<std::size_t> sizes;
  for (TextBatch batch; reader.next(batch);) {
    for (const TextItem& item : batch.items) sizes.push_back(item.size);
  }
  EXPECT_EQ(sizes, (std::vector<std::size_t>{3'000'000, 1}));
}

TEST(PieceLength, CutsBeforeWhiteSpaceOrBetweenCharacters) {
  EXPECT_EQ(piece_length("abc"), 3u);
  EXPECT_EQ(piece_length(std::string(max_piece_bytes, 'x')), max_piece_bytes);
  std::string text(2 * max_piece_bytes, 'x');
  EXPECT_EQ(piece_length(text), max_piece_bytes);
  text[max_piece_bytes - 5] = text[max_piece_bytes - 4] = ' ';
  EXPECT_EQ(piece_length(text), max_piece_bytes - 5);
  text[max_piece_bytes - 900] = '\n';
  EXPECT_EQ(piece_length(text), max_piece_bytes - 900);
  std::string wide = "x";
  while (wide.size() < 2 * max_piece_bytes) wide += "\xE6\x97\xA5";
  EXPECT_EQ(piece_length(wide) % 3, 1u);
}

}  // namespace
}  // namespace satformer
