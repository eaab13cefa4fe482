#include "eval/rows.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <filesystem>
#include <set>

#include "base/error.h"
#include "base/whole_file.h"
#include "data/parquet_column.h"
#include "data/text_source.h"

namespace satformer {
namespace {

namespace fs = std::filesystem;

std::string read_text(const std::string& path) {
  const InputList inputs = find_inputs(std::vector<std::string>{path});
  TextStream stream(inputs.files.at(0));
  std::string text;
  while (stream.read(text)) {
  }
  return text;
}

Row make_row(std::string_view text, std::string origin) {
  Row row;
  row.origin = std::move(origin);
  try {
    row.columns = parse_json(text, row.origin, ExitCode::data);
    if (!row.columns.is_object()) row.error = concat(row.origin, ": a row must be a JSON object");
  } catch (const Error& error) {
    row.error = error.what();
  }
  if (!row.error.empty()) row.columns = nullptr;
  return row;
}

void add_json_lines(const std::string& text, const std::string& path, const std::function<void(Row)>& add) {
  std::size_t number = 0;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    const std::string_view line = std::string_view(text).substr(at, end - at);
    ++number;
    if (!is_blank(line)) add(make_row(line, concat(path, ":", number)));
    at = end + 1;
  }
}

void read_json_lines(const std::string& path, const std::function<void(Row)>& add) {
  add_json_lines(read_text(path), path, add);
}

// One array of objects; or lines, as many ".json" files are.
void read_json(const std::string& path, const std::function<void(Row)>& add) {
  const std::string text = read_text(path);
  const auto start = text.find_first_not_of(" \t\r\n");
  if (start == std::string::npos || text[start] != '[') return read_json_lines(path, add);
  const Json array = parse_json(text, path, ExitCode::data);
  std::size_t number = 0;
  for (const Json& item : array) {
    Row row;
    row.origin = concat(path, "[", number++, "]");
    if (item.is_object()) {
      row.columns = item;
    } else {
      row.error = concat(row.origin, ": a row must be a JSON object");
    }
    add(std::move(row));
  }
}

void read_parquet(const std::string& path, const std::function<void(Row)>& add) {
  ParquetColumn rows(path, whole_rows);
  std::size_t number = 0;
  for (ParquetColumn::Value value; rows.next(value);) {
    const std::string origin = concat(path, "[", number++, "]");
    if (!value.too_long) {
      add(make_row(value.text, origin));
      continue;
    }
    Row row;
    row.origin = origin;
    row.error = concat(origin, ": the row is longer than ", max_value_bytes, " bytes");
    add(std::move(row));
  }
}

constexpr std::array formats = {RowFormat{".jsonl", read_json_lines}, RowFormat{".json", read_json},
                                RowFormat{".parquet", read_parquet}};

std::string_view without_compression(std::string_view name) {
  for (const std::string_view end : {".gz", ".zst"}) {
    if (name.ends_with(end)) return name.substr(0, name.size() - end.size());
  }
  return name;
}

std::string known_extensions() {
  std::string list;
  for (const RowFormat& format : formats) list += concat(list.empty() ? "" : ", ", format.extension);
  return list;
}

std::vector<std::string> keys_of(const Json& object) {
  std::vector<std::string> keys;
  if (object.is_object()) {
    for (const auto& [key, value] : object.items()) keys.push_back(key);
  }
  return keys;
}

}  // namespace

std::span<const RowFormat> row_formats() { return formats; }

const RowFormat* row_format_of(std::string_view path) {
  const std::string_view name = without_compression(path);
  for (const RowFormat& format : formats) {
    if (name.ends_with(format.extension)) return &format;
  }
  return nullptr;
}

std::vector<Row> read_rows(std::span<const std::string> paths) {
  std::vector<Row> rows;
  for (const std::string& path : paths) {
    if (path == standard_input) {
      add_json_lines(read_standard_input(), "standard input", [&](Row row) { rows.push_back(std::move(row)); });
      continue;
    }
    const RowFormat* format = row_format_of(path);
    if (!format) {
      fail(ExitCode::data, path, ": rows are read from ", known_extensions(), " files, each also with .gz or .zst");
    }
    format->read(path, [&](Row row) { rows.push_back(std::move(row)); });
  }
  if (rows.empty()) fail(ExitCode::data, paths.empty() ? std::string("no file") : paths[0], ": there is no row");
  return rows;
}

std::vector<std::string> find_table(const std::string& directory, std::span<const std::string> names,
                                    std::span<const std::string> splits, bool whole_file) {
  std::error_code error;
  if (!fs::is_directory(directory, error)) {
    fail(ExitCode::system, "cannot open the data folder '", directory, "': it is no folder");
  }
  const auto listing = [&](const fs::path& folder, const auto& wanted) {
    std::vector<std::string> found;
    for (const auto& entry : fs::directory_iterator(folder, error)) {
      const std::string name = entry.path().filename().string();
      const RowFormat* format = row_format_of(name);
      if (!entry.is_regular_file(error) || !format) continue;
      const std::string_view stem = without_compression(name);
      if (wanted(stem.substr(0, stem.size() - format->extension.size()))) found.push_back(entry.path().string());
    }
    std::sort(found.begin(), found.end());
    return found;
  };
  for (const std::string& name : names) {
    for (const std::string& split : splits) {
      auto found = listing(directory, [&](std::string_view stem) {
        return stem == name + "_" + split || stem == name + "-" + split || stem == name + "." + split;
      });
      if (!found.empty()) return found;
      std::vector<fs::path> folders = {fs::path(directory) / name};
      for (const char* inner : {"data", "default", "plain_text"}) folders.push_back(folders[0] / inner);
      for (const std::string& inner : names) folders.push_back(folders[0] / inner);
      for (const fs::path& folder : folders) {
        if (!fs::is_directory(folder, error)) continue;
        found = listing(folder, [&](std::string_view stem) {
          return stem == split ||
                 (stem.starts_with(split) && stem.size() > split.size() &&
                  (stem[split.size()] == '-' || stem[split.size()] == '_' || stem[split.size()] == '.'));
        });
        if (!found.empty()) return found;
      }
    }
    if (!whole_file) continue;
    const auto found = listing(directory, [&](std::string_view stem) { return stem == name; });
    if (!found.empty()) return found;
  }
  return {};
}

bool Columns::has(std::string_view name) const { return object_.is_object() && object_.contains(name); }

const Json& Columns::at(std::string_view name) const {
  if (!has(name)) {
    const std::vector<std::string> keys = keys_of(object_);
    std::string list;
    for (const std::string& key : keys) list += concat(list.empty() ? "" : ", ", key);
    const std::string near = did_you_mean(name, keys);
    fail(ExitCode::data, origin_, ": column '", name, "' is missing",
         near.empty() ? concat("; there are: ", list) : "." + near);
  }
  return object_.at(name);
}

std::string Columns::text(std::string_view name) const {
  const Json& value = at(name);
  if (!value.is_string())
    fail(ExitCode::data, origin_, ": column '", name, "' must be text, not ", value.type_name());
  return value.get<std::string>();
}

std::vector<std::string> Columns::texts(std::string_view name) const {
  const Json& value = at(name);
  if (!value.is_array()) {
    fail(ExitCode::data, origin_, ": column '", name, "' must be a list of texts, not ", value.type_name());
  }
  std::vector<std::string> result;
  for (const Json& item : value) {
    if (!item.is_string()) {
      fail(ExitCode::data, origin_, ": column '", name, "' must be a list of texts; it holds ", item.type_name());
    }
    result.push_back(item.get<std::string>());
  }
  return result;
}

Columns Columns::inside(std::string_view name) const {
  const Json& value = at(name);
  if (!value.is_object()) {
    fail(ExitCode::data, origin_, ": column '", name, "' must be an object, not ", value.type_name());
  }
  return Columns(value, concat(origin_, ": in '", name, "'"));
}

std::int64_t Columns::integer(std::string_view name) const {
  const Json& value = at(name);
  if (value.is_number_integer()) return value.get<std::int64_t>();
  if (value.is_boolean()) return value.get<bool>() ? 1 : 0;
  if (value.is_string()) {
    const auto& text = value.get_ref<const std::string&>();
    std::int64_t number = 0;
    const auto parsed = std::from_chars(text.data(), text.data() + text.size(), number);
    if (parsed.ec == std::errc() && parsed.ptr == text.data() + text.size()) return number;
  }
  fail(ExitCode::data, origin_, ": column '", name, "' must be a whole number, not ", value.dump());
}

}  // namespace satformer
