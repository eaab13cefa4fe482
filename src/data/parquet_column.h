// The values of one text column of a Parquet file, or its rows, in order.
//
// Arrow's libraries share symbols with libtorch and with what satformer links, so that they never enter this process:
// the program satformer-parquet, beside this one or in PATH, reads the file and hands the values over through a pipe.
// It is built where the pyarrow package was there (see docs/building.md).
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <string_view>

namespace satformer {

// What satformer-parquet FILE [COLUMN] writes to its standard output: the number of rows (8 bytes), then a length (4
// bytes) and so many bytes for each, then values_end. Three lengths stand for something else.
inline constexpr std::uint32_t values_end = 0xFFFFFFFF, value_is_null = 0xFFFFFFFE, value_too_long = 0xFFFFFFFD;
inline constexpr std::uint32_t max_value_bytes = std::uint32_t{256} << 20;

// In place of a column's name: each value is a whole row, as one JSON object.
inline constexpr const char* whole_rows = "";

// The helper's path; empty where there is none.
std::string find_parquet_helper();

class ParquetColumn {
 public:
  // Errors: system (no helper), data (not a Parquet file, a damaged one, no such column, one that holds no text).
  ParquetColumn(std::string path, const std::string& column, const std::string& helper = find_parquet_helper());
  ~ParquetColumn();
  ParquetColumn(const ParquetColumn&) = delete;
  ParquetColumn& operator=(const ParquetColumn&) = delete;

  struct Value {
    bool null = false, too_long = false;
    std::string_view text;  // until the next call
  };
  bool next(Value& value);  // false at the end
  std::uint64_t num_rows() const { return rows_; }
  std::uint64_t rows_read() const { return read_; }

 private:
  std::string_view take(std::size_t size);  // until the next call
  [[noreturn]] void fail_with_helper();
  int wait();

  std::string path_;
  pid_t process_ = -1;
  int output_ = -1, errors_ = -1;
  std::string buffer_;
  std::size_t from_ = 0;
  std::uint64_t rows_ = 0, read_ = 0;
};

}  // namespace satformer
