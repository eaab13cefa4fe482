#include "data/parquet/rows.h"

#include <arrow/array.h>
#include <arrow/io/file.h>
#include <arrow/record_batch.h>
#include <arrow/scalar.h>
#include <arrow/type.h>
#include <arrow/util/float16.h>
#include <parquet/arrow/reader.h>
#include <parquet/exception.h>
#include <parquet/file_reader.h>

#include <nlohmann/json.hpp>

#include "base/error.h"

namespace satformer {
namespace {

using Json = nlohmann::ordered_json;

Json value_at(const arrow::Array& array, std::int64_t row);

template <class Array>
const Array& as(const arrow::Array& array) {
  return static_cast<const Array&>(array);
}

Json items(const arrow::Array& values, std::int64_t from, std::int64_t count) {
  Json list = Json::array();
  for (std::int64_t i = 0; i < count; ++i) list.push_back(value_at(values, from + i));
  return list;
}

template <class Array>
Json list_at(const arrow::Array& any, std::int64_t row) {
  const auto& array = as<Array>(any);
  return items(*array.values(), array.value_offset(row), array.value_length(row));
}

Json struct_at(const arrow::StructArray& array, std::int64_t row) {
  Json object = Json::object();
  for (int field = 0; field < array.num_fields(); ++field) {
    object[array.type()->field(field)->name()] = value_at(*array.field(field), row);
  }
  return object;
}

template <class Array>
Json text_at(const arrow::Array& array, std::int64_t row) {
  return std::string(as<Array>(array).GetView(row));
}

Json value_at(const arrow::Array& array, std::int64_t row) {
  if (array.IsNull(row)) return nullptr;
  switch (array.type_id()) {
    case arrow::Type::NA:
      return nullptr;
    case arrow::Type::BOOL:
      return as<arrow::BooleanArray>(array).Value(row);
    case arrow::Type::INT8:
      return as<arrow::Int8Array>(array).Value(row);
    case arrow::Type::INT16:
      return as<arrow::Int16Array>(array).Value(row);
    case arrow::Type::INT32:
      return as<arrow::Int32Array>(array).Value(row);
    case arrow::Type::INT64:
      return as<arrow::Int64Array>(array).Value(row);
    case arrow::Type::UINT8:
      return as<arrow::UInt8Array>(array).Value(row);
    case arrow::Type::UINT16:
      return as<arrow::UInt16Array>(array).Value(row);
    case arrow::Type::UINT32:
      return as<arrow::UInt32Array>(array).Value(row);
    case arrow::Type::UINT64:
      return as<arrow::UInt64Array>(array).Value(row);
    case arrow::Type::FLOAT:
      return as<arrow::FloatArray>(array).Value(row);
    case arrow::Type::DOUBLE:
      return as<arrow::DoubleArray>(array).Value(row);
    case arrow::Type::STRING:
      return text_at<arrow::StringArray>(array, row);
    case arrow::Type::LARGE_STRING:
      return text_at<arrow::LargeStringArray>(array, row);
    case arrow::Type::BINARY:
      return text_at<arrow::BinaryArray>(array, row);
    case arrow::Type::LARGE_BINARY:
      return text_at<arrow::LargeBinaryArray>(array, row);
    case arrow::Type::LIST:
    case arrow::Type::MAP:
      return list_at<arrow::ListArray>(array, row);
    case arrow::Type::LARGE_LIST:
      return list_at<arrow::LargeListArray>(array, row);
    case arrow::Type::FIXED_SIZE_LIST:
      return list_at<arrow::FixedSizeListArray>(array, row);
    case arrow::Type::STRUCT:
      return struct_at(as<arrow::StructArray>(array), row);
    case arrow::Type::DICTIONARY: {
      const auto& coded = as<arrow::DictionaryArray>(array);
      return value_at(*coded.dictionary(), coded.GetValueIndex(row));
    }
    default: {
      const auto scalar = array.GetScalar(row);
      if (!scalar.ok()) fail(ExitCode::data, "a value of type ", array.type()->ToString(), " cannot be read");
      return (*scalar)->ToString();
    }
  }
}

}  // namespace

void read_parquet_rows(const std::string& path, const std::function<void(std::uint64_t)>& begin,
                       const std::function<void(std::string_view)>& row) {
  auto file = arrow::io::ReadableFile::Open(path);
  if (!file.ok()) fail(ExitCode::system, "cannot open '", path, "': ", file.status().message());
  PARQUET_ASSIGN_OR_THROW(const auto reader, parquet::arrow::OpenFile(*file, arrow::default_memory_pool()));
  begin(static_cast<std::uint64_t>(reader->parquet_reader()->metadata()->num_rows()));
  PARQUET_ASSIGN_OR_THROW(const auto batches, reader->GetRecordBatchReader());
  for (;;) {
    PARQUET_ASSIGN_OR_THROW(const std::shared_ptr<arrow::RecordBatch> batch, batches->Next());
    if (!batch) return;
    for (std::int64_t i = 0; i < batch->num_rows(); ++i) {
      Json object = Json::object();
      for (int c = 0; c < batch->num_columns(); ++c) object[batch->column_name(c)] = value_at(*batch->column(c), i);
      row(object.dump(-1, ' ', false, Json::error_handler_t::replace));
    }
  }
}

}  // namespace satformer
