// Tables of documents as JSON objects, whatever file holds them.
#pragma once

#include <functional>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"

namespace satformer {

// One row: an object of columns, or the reason why it cannot be read.
struct Row {
  Json columns;
  std::string origin;  // "file.jsonl:17", for messages
  std::string error;   // not empty: columns is null
};

// A file format. To read another one, add it to row_formats() in rows.cpp.
struct RowFormat {
  std::string_view extension;  // ".jsonl"
  void (*read)(const std::string& path, const std::function<void(Row)>& add);
};
std::span<const RowFormat> row_formats();

// Where a path is asked for: JSON lines from standard input.
inline constexpr const char* standard_input = "-";

// JSON lines, and JSON with one array of objects, each also gzip or zstd; Parquet.
// Error(system) where a file cannot be opened, Error(data) where it is of no known format or holds no row.
std::vector<Row> read_rows(std::span<const std::string> paths);

// The format by which a file name is read, or null.
const RowFormat* row_format_of(std::string_view path);

// Files of one split of a data set: DIR/NAME.EXT, DIR/NAME[_-.]SPLIT.EXT, and DIR/NAME/SPLIT*.EXT (also in data/,
// default/ or a folder of `names` inside), for the first of `names` and `splits` that gives any, sorted.
std::vector<std::string> find_table(const std::string& directory, std::span<const std::string> names,
                                    std::span<const std::string> splits, bool whole_file);

// Columns of a row. Error(data) naming the row, the column, the nearest one there, and the type found.
class Columns {
 public:
  explicit Columns(const Row& row) : object_(row.columns), origin_(row.origin) {}
  Columns(const Json& object, std::string origin) : object_(object), origin_(std::move(origin)) {}
  bool has(std::string_view name) const;
  const Json& at(std::string_view name) const;
  std::string text(std::string_view name) const;
  std::vector<std::string> texts(std::string_view name) const;  // a list of strings
  Columns inside(std::string_view name) const;                  // an object
  // An integer, also written as text ("3").
  std::int64_t integer(std::string_view name) const;
  const Json& object() const { return object_; }
  const std::string& origin() const { return origin_; }

 private:
  const Json& object_;
  std::string origin_;
};

}  // namespace satformer
