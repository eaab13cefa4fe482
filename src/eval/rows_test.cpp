#include "eval/rows.h"

#include <gtest/gtest.h>

#include "base/test_error.h"
#include "data/parquet_column.h"
#include "io/file.h"
#include "io/test_folder.h"

namespace satformer {
namespace {

const std::string lines = SATFORMER_TEST_DATA "/eval/fixtures/";
const std::string tables = SATFORMER_TEST_DATA "/eval/parquet/";

class ParquetRows : public testing::Test {
 protected:
  void SetUp() override {
    if (find_parquet_helper().empty()) GTEST_SKIP() << "built without pyarrow";
  }
};

std::vector<Row> rows_of(const std::string& path) { return read_rows(std::vector<std::string>{path}); }

// A column that some rows lack is null there in a table.
Json without_nulls(const Json& value) {
  if (!value.is_object()) return value;
  Json kept = Json::object();
  for (const auto& [key, item] : value.items()) {
    if (!item.is_null()) kept[key] = without_nulls(item);
  }
  return kept;
}

TEST_F(ParquetRows, AreThoseOfTheJsonLines) {
  const std::pair<const char*, const char*> same[] = {
      {"hellaswag_val.jsonl", "hellaswag/data/validation-00000-of-00001.parquet"},
      {"ARC-Challenge/test-00000-of-00001.jsonl", "ARC-Challenge/test-00000-of-00001.parquet"},
      {"boolq_validation.jsonl", "boolq/data/validation-00000-of-00001.parquet"},
      {"drop_validation.jsonl", "drop/data/validation-00000-of-00001.parquet"},
      {"trivia_qa/rc.nocontext/validation-00000-of-00001.jsonl",
       "trivia_qa/rc.nocontext/validation-00000-of-00001.parquet"},
  };
  for (const auto& [json_lines, parquet] : same) {
    SCOPED_TRACE(parquet);
    const auto a = rows_of(lines + json_lines), b = rows_of(tables + parquet);
    ASSERT_EQ(a.size(), b.size());
    for (std::size_t i = 0; i < a.size(); ++i) {
      EXPECT_EQ(b[i].error, "");
      EXPECT_EQ(nlohmann::json(without_nulls(a[i].columns)), nlohmann::json(without_nulls(b[i].columns))) << i;
      EXPECT_EQ(b[i].origin, tables + parquet + "[" + std::to_string(i) + "]");
    }
  }
}

TEST_F(ParquetRows, AreFoundWhereTheSetsArePublished) {
  const std::vector<std::string> names = {"hellaswag", "Rowan/hellaswag"}, splits = {"validation"};
  const auto found = find_table(tables, names, splits, true);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_TRUE(found[0].ends_with("hellaswag/data/validation-00000-of-00001.parquet")) << found[0];
}

TEST_F(ParquetRows, WhatIsNoParquetIsNamed) {
  const TestFolder folder;
  write_file_atomic(folder / "x.parquet", "not a table");
  const std::string text = error_text([&] { rows_of(folder / "x.parquet"); }, ExitCode::data);
  EXPECT_NE(text.find("x.parquet: not a usable Parquet file"), std::string::npos) << text;
}

}  // namespace
}  // namespace satformer
