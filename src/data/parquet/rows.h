// Whole rows of a Parquet file as JSON objects, for satformer-parquet FILE.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

namespace satformer {

// Calls `begin` with the number of rows, then `row` with each as one line of JSON. Lists become arrays, structs
// objects, maps arrays of {"key", "value"}; bytes are taken for UTF-8 text; what JSON has no form for (dates,
// decimals) becomes text. Errors are Arrow's exceptions or Error(data, system).
void read_parquet_rows(const std::string& path, const std::function<void(std::uint64_t)>& begin,
                       const std::function<void(std::string_view)>& row);

}  // namespace satformer
