#include "data/parquet_column.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "base/error.h"
#include "base/test_error.h"
#include "data/prepare.h"
#include "data/test_text.h"
#include "io/shards.h"
#include "io/test_folder.h"

namespace satformer {
namespace {

const std::string files = SATFORMER_TEST_DATA "/data/parquet/";

class Parquet : public testing::Test {
 protected:
  void SetUp() override {
    if (find_parquet_helper().empty()) GTEST_SKIP() << "built without pyarrow";
  }
};

// Values with "<null>" for null ones.
std::vector<std::string> values(const std::string& path, const std::string& column = "text") {
  ParquetColumn reader(path, column);
  std::vector<std::string> all;
  for (ParquetColumn::Value value; reader.next(value);)
    all.push_back(value.null ? "<null>" : std::string(value.text));
  EXPECT_EQ(all.size(), reader.num_rows());
  return all;
}

std::string refused(const auto& action, ExitCode code = ExitCode::data) { return error_text(action, code); }

void expect_refused(const std::string& path, const std::string& column, const std::string& reason) {
  const std::string message = refused([&] { values(path, column); });
  EXPECT_EQ(message.find(path), 0u) << message;
  EXPECT_NE(message.find(reason), std::string::npos) << message;
  EXPECT_EQ(message.find('\n'), std::string::npos) << message;
}

PrepareOptions options_of(const TestFolder& folder, std::vector<std::string> inputs) {
  PrepareOptions options;
  options.inputs = std::move(inputs);
  options.output_dir = folder / "out";
  options.tokenizer = "byte";
  options.val_fraction = 0;
  return options;
}

TEST_F(Parquet, SameTextsFromEveryLayout) {
  std::vector<std::string> texts;
  for (int i = 0; i < 50; ++i) {
    texts.push_back("document " + std::to_string(i) + ": ");
    for (int k = 0; k < i % 7; ++k) texts.back() += "value ";
  }
  EXPECT_EQ(values(files + "documents.parquet"), texts);
  EXPECT_EQ(values(files + "plain.parquet"), texts);
  EXPECT_EQ(values(files + "binary.parquet"), texts);
  EXPECT_EQ(values(files + "nested.parquet", "meta.body"), texts);
  EXPECT_EQ(values(files + "kinds.parquet", "required"), std::vector<std::string>{"a"});
  EXPECT_TRUE(values(files + "empty.parquet").empty());
}

TEST_F(Parquet, ColumnsThatHoldNoTextAreNamed) {
  const std::string kinds = files + "kinds.parquet";
  expect_refused(kinds, "text", "no column 'text'; columns of text: txet, struct.a, required. Did you mean 'txet'?");
  expect_refused(kinds, "number", "'number' holds INT64, not strings");
  expect_refused(kinds, "decimal", "not strings");
  expect_refused(kinds, "list", "'list' holds lists or structs");
  expect_refused(kinds, "list.list.element", "holds lists of String, not strings");
  expect_refused(kinds, "struct", "'struct' holds lists or structs");
  EXPECT_EQ(values(kinds, "struct.a"), std::vector<std::string>{"b"});
}

TEST_F(Parquet, DamagedFilesAreNamed) {
  const TestFolder folder;
  const std::string path = folder / "x.parquet";
  const std::string whole = read_file(files + "documents.parquet");
  for (const std::string& bytes : {std::string(), std::string("PAR1"), std::string("not Parquet at all, but longer"),
                                   whole.substr(0, whole.size() / 2), whole.substr(1)}) {
    std::ofstream(path, std::ios::binary) << bytes;
    expect_refused(path, "text", "not a usable Parquet file");
  }
  EXPECT_NE(refused([&] { values(folder / "missing.parquet"); }, ExitCode::system).find("missing.parquet"),
            std::string::npos);
  // Checksums find a changed page.
  std::string changed = whole;
  changed[40] = static_cast<char>(changed[40] ^ 0x04);
  for (std::size_t at = 4; at < whole.size(); at += 97) {
    changed = whole;
    changed[at] = static_cast<char>(changed[at] ^ 0x55);
    std::ofstream(path, std::ios::binary) << changed;
    try {
      values(path);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::data) << error.what();
      EXPECT_EQ(std::string(error.what()).find(path), 0u) << error.what();
    }
  }
}

TEST_F(Parquet, MayBeLeftEarly) {
  for (int i = 0; i < 3; ++i) {
    ParquetColumn reader(files + "documents.parquet", "text");
    ParquetColumn::Value value;
    EXPECT_TRUE(reader.next(value));
  }
}

TEST_F(Parquet, PreparesLikeJsonLines) {
  const TestFolder folder;
  std::string lines;
  for (const std::string& text : values(files + "documents.parquet")) lines += "{\"text\":\"" + text + "\"}\n";
  write_file_atomic(folder / "a.jsonl", lines);
  std::string shard;
  for (const std::string& input : {folder / "a.jsonl", files + "documents.parquet", files + "plain.parquet"}) {
    for (const int workers : {1, 3}) {
      PrepareOptions options = options_of(folder, {input});
      options.overwrite = true;
      options.workers = workers;
      EXPECT_EQ(prepare(options).documents, 50);
      const std::string bytes = read_file(folder / "out/train_00000.bin");
      if (shard.empty()) shard = bytes;
      EXPECT_TRUE(bytes == shard) << input;
    }
  }
  PrepareOptions options = options_of(folder, {files + "nested.parquet"});
  options.overwrite = true;
  options.text_key = "meta.body";
  prepare(options);
  EXPECT_TRUE(read_file(folder / "out/train_00000.bin") == shard);
}

TEST_F(Parquet, BadRowsAreNamedOrCounted) {
  const TestFolder folder;
  PrepareOptions options = options_of(folder, {files + "odd.parquet"});
  EXPECT_NE(refused([&] { prepare(options); }).find("odd.parquet: row 2: 'text' is null, not a string"),
            std::string::npos);
  EXPECT_FALSE(std::filesystem::exists(folder / "out"));
  options.skip_bad = true;
  const PrepareResult result = prepare(options);
  EXPECT_EQ(result.documents, 3);
  EXPECT_EQ(result.empty_documents, 2);
  EXPECT_EQ(result.bad_lines, 2);
  const std::string expected = std::string("first\2a\nb\rc\2last\2");
  const std::string shard = read_file(folder / "out/train_00000.bin");
  ASSERT_EQ(shard.size(), 2 * expected.size());
  for (std::size_t i = 0; i < expected.size(); ++i) {
    EXPECT_EQ(shard[2 * i], expected[i] == '\2' ? '\2' : static_cast<char>(expected[i] + 3)) << i;
  }
}

TEST_F(Parquet, NoRowsAreNothingToWrite) {
  const TestFolder folder;
  EXPECT_NE(refused([&] { prepare(options_of(folder, {files + "empty.parquet"})); }).find("nothing is left"),
            std::string::npos);
  EXPECT_FALSE(std::filesystem::exists(folder / "out"));
}

TEST(ParquetHelper, WhatIsMissingIsSaid) {
  const std::string message =
      refused([] { ParquetColumn(files + "documents.parquet", "text", ""); }, ExitCode::system);
  EXPECT_NE(message.find("needs the program satformer-parquet"), std::string::npos) << message;
  EXPECT_NE(message.find("make setup"), std::string::npos) << message;
  EXPECT_NE(refused([] { ParquetColumn(files + "documents.parquet", "text", "/no/such/helper"); }, ExitCode::system)
                .find("/no/such/helper"),
            std::string::npos);
}

// A helper that fails in its own ways.
TEST(ParquetHelper, ItsEndIsReported) {
  const TestFolder folder;
  const auto with = [&](const std::string& script) {
    const std::string helper = folder / "helper";
    std::ofstream(helper) << "#!/bin/sh\n" << script << "\n";
    std::filesystem::permissions(helper, std::filesystem::perms::owner_all);
    return refused([&] {
      ParquetColumn column("file.parquet", "text", helper);
      for (ParquetColumn::Value value; column.next(value);) {
      }
    });
  };
  EXPECT_NE(with("kill -SEGV $$").find("ended by signal 11"), std::string::npos);
  EXPECT_NE(with("exit 3").find("failed with code 3"), std::string::npos);
  EXPECT_NE(with("echo 'file.parquet: bad' >&2; exit 4").find("file.parquet: bad"), std::string::npos);
  EXPECT_NE(with("printf '\\2\\0\\0\\0\\0\\0\\0\\0\\1\\0\\0\\0a\\377\\377\\377\\377'").find("ends after 1 of 2 rows"),
            std::string::npos);
  EXPECT_NE(with("printf '\\2\\0\\0\\0\\0\\0\\0\\0\\9'; kill -9 $$").find("ended by signal 9"), std::string::npos);
}

}  // namespace
}  // namespace satformer
