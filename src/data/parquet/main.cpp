// satformer-parquet FILE [COLUMN]: writes the values of a text column, or whole rows as JSON, to standard output, as
// data/parquet_column.h says. A program of its own, so that Arrow's libraries meet none of satformer's.
#include <arrow/io/file.h>
#include <parquet/column_reader.h>
#include <parquet/exception.h>
#include <parquet/file_reader.h>
#include <parquet/schema.h>

#include <cstdio>
#include <cstring>
#include <new>
#include <string>
#include <vector>

#include "base/error.h"
#include "data/parquet/rows.h"
#include "data/parquet_column.h"

namespace satformer {
namespace {

constexpr std::int64_t batch_values = 1024;

void write(const void* bytes, std::size_t size) {
  if (size > 0 && std::fwrite(bytes, 1, size, stdout) != size) fail_errno("write", "standard output", errno);
}

void write_length(std::uint32_t length) { write(&length, sizeof length); }

bool is_text(const parquet::ColumnDescriptor& column) {
  if (column.physical_type() != parquet::Type::BYTE_ARRAY) return false;
  const auto& type = column.logical_type();
  return !type || type->is_none() || type->is_string() || type->is_JSON() || type->is_enum();
}

// The column of that name. A dot goes into a struct.
int find_column(const parquet::SchemaDescriptor& schema, const std::string& path, const std::string& name) {
  std::vector<std::string> text_columns;
  for (int i = 0; i < schema.num_columns(); ++i) {
    const parquet::ColumnDescriptor& column = *schema.Column(i);
    const std::string column_name = column.path()->ToDotString();
    if (column_name == name) {
      if (is_text(column) && column.max_repetition_level() == 0) return i;
      const auto& logical = column.logical_type();
      const std::string type =
          logical && !logical->is_none() ? logical->ToString() : parquet::TypeToString(column.physical_type());
      fail(ExitCode::data, path, ": the column '", name, "' holds ",
           column.max_repetition_level() > 0 ? "lists of " : "", type, ", not strings");
    }
    if (is_text(column) && column.max_repetition_level() == 0) text_columns.push_back(column_name);
  }
  if (schema.group_node()->FieldIndex(name) >= 0) {
    fail(ExitCode::data, path, ": the column '", name, "' holds lists or structs, not strings.",
         did_you_mean(name, text_columns));
  }
  std::string names;
  for (const std::string& column : text_columns) {
    if (names.size() < 300) names += (names.empty() ? "" : ", ") + column;
  }
  fail(ExitCode::data, path, ": there is no column '", name, "'; columns of text: ", names.empty() ? "none" : names,
       ".", did_you_mean(name, text_columns));
}

void copy_row_group(parquet::RowGroupReader& group, int column, const std::string& path) {
  const std::shared_ptr<parquet::ColumnReader> any = group.Column(column);
  auto* reader = dynamic_cast<parquet::ByteArrayReader*>(any.get());
  if (!reader) fail(ExitCode::data, path, ": the column's pages are not of its type");
  const std::int16_t present = reader->descr()->max_definition_level();
  std::vector<std::int16_t> levels(batch_values);
  std::vector<parquet::ByteArray> values(batch_values);
  while (reader->HasNext()) {
    std::int64_t count = 0;
    const std::int64_t rows = reader->ReadBatch(batch_values, levels.data(), nullptr, values.data(), &count);
    if (rows == 0 && count == 0) fail(ExitCode::data, path, ": a page of the column holds no values");
    const std::int64_t all = present > 0 ? rows : count;
    for (std::int64_t row = 0, value = 0; row < all; ++row) {
      if (present > 0 && levels[static_cast<std::size_t>(row)] < present) {
        write_length(value_is_null);
        continue;
      }
      if (value == count) fail(ExitCode::data, path, ": a page of the column lacks values");
      const parquet::ByteArray& text = values[static_cast<std::size_t>(value++)];
      if (text.len > max_value_bytes) {
        write_length(value_too_long);
        continue;
      }
      write_length(text.len);
      write(text.ptr, text.len);
    }
  }
}

void copy_column(const std::string& path, const std::string& name) {
  auto file = arrow::io::ReadableFile::Open(path);
  if (!file.ok()) fail(ExitCode::system, "cannot open '", path, "': ", file.status().message());
  parquet::ReaderProperties properties;
  properties.enable_buffered_stream();
  properties.set_buffer_size(std::int64_t{1} << 20);
  properties.set_page_checksum_verification(true);
  const auto reader = parquet::ParquetFileReader::Open(*file, properties);
  const auto metadata = reader->metadata();
  const int column = find_column(*metadata->schema(), path, name);
  const auto rows = static_cast<std::uint64_t>(metadata->num_rows());
  write(&rows, sizeof rows);
  for (int group = 0; group < metadata->num_row_groups(); ++group) {
    copy_row_group(*reader->RowGroup(group), column, path);
  }
  write_length(values_end);
  if (std::fflush(stdout) != 0) fail_errno("write", "standard output", errno);
}

void copy_rows(const std::string& path) {
  read_parquet_rows(
      path, [](std::uint64_t rows) { write(&rows, sizeof rows); },
      [](std::string_view row) {
        const bool fits = row.size() <= max_value_bytes;
        write_length(fits ? static_cast<std::uint32_t>(row.size()) : value_too_long);
        if (fits) write(row.data(), row.size());
      });
  write_length(values_end);
  if (std::fflush(stdout) != 0) fail_errno("write", "standard output", errno);
}

}  // namespace
}  // namespace satformer

int main(int argc, char** argv) {
  using satformer::ExitCode;
  if (argc != 2 && argc != 3) {
    std::fprintf(stderr, "usage: satformer-parquet FILE [COLUMN] (a helper of `satformer prepare` and `eval`)\n");
    return static_cast<int>(ExitCode::usage);
  }
  ExitCode code = ExitCode::data;
  std::string message;
  try {
    if (argc == 2) {
      satformer::copy_rows(argv[1]);
    } else {
      satformer::copy_column(argv[1], argv[2]);
    }
    return 0;
  } catch (const satformer::Error& error) {
    code = error.code();
    message = error.what();
  } catch (const std::bad_alloc&) {
    code = ExitCode::memory;
    message = std::string(argv[1]) + ": out of memory";
  } catch (const std::exception& error) {
    message = std::string(argv[1]) + ": not a usable Parquet file: " + error.what();
  }
  std::fprintf(stderr, "%s\n", message.c_str());
  return static_cast<int>(code);
}
