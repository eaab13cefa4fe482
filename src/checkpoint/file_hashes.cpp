#include "checkpoint/file_hashes.h"

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <system_error>
#include <vector>

#include "io/file.h"

namespace satformer {
namespace fs = std::filesystem;
namespace {

constexpr const char* hashes_key = "sha256";
constexpr std::size_t hash_size = 64;

std::string sha256_text(std::string_view text) {
  Sha256 hash;
  hash.update(text);
  return hash.hex();
}

const Json* entry_of(const Json& record, const std::string& file) {
  const auto hashes = record.find(hashes_key);
  if (hashes == record.end() || !hashes->is_object()) return nullptr;
  const auto it = hashes->find(file);
  return it == hashes->end() ? nullptr : &*it;
}

}  // namespace

void write_hash_record(const std::string& directory, const std::string& name, Json record,
                       const std::map<std::string, std::string>& known) {
  std::vector<std::string> names;
  std::error_code error;
  fs::directory_iterator it(directory, error);
  for (const fs::directory_iterator end; !error && it != end; it.increment(error)) {
    names.push_back(it->path().filename().string());
  }
  if (error) fail_errno("list", directory, error.value());
  std::sort(names.begin(), names.end());
  for (const std::string& file : names) {
    const auto hash = known.find(file);
    record[hashes_key][file] = hash != known.end() ? hash->second : sha256_file(directory + "/" + file);
  }
  const std::string nothing(hash_size, '0');
  record[hashes_key][name] = nothing;
  std::string text = record.dump(2) + "\n";
  const std::string hash = sha256_text(text);
  text.replace(text.rfind(nothing), hash_size, hash);
  write_file_atomic(directory + "/" + name, text);
}

Json read_hash_record(const std::string& directory, const std::string& name, bool (*old)(const Json& record)) {
  const std::string path = directory + "/" + name;
  std::string text = read_file(path);
  Json record = parse_json(text, path, ExitCode::checkpoint);
  if (!record.is_object()) fail(ExitCode::checkpoint, path, ": not a JSON object");
  const Json* own = entry_of(record, name);
  if (!own && old(record)) return record;
  const std::string hash = own && own->is_string() ? own->get<std::string>() : std::string();
  const auto at = hash.size() == hash_size ? text.rfind(hash) : std::string::npos;
  if (at != std::string::npos) text.replace(at, hash_size, std::string(hash_size, '0'));
  if (at == std::string::npos || sha256_text(text) != hash) {
    fail(ExitCode::checkpoint, "'", path, "' is cut or changed: its SHA-256 differs from the one it holds");
  }
  return record;
}

void verify_hash(const std::string& directory, const std::string& file, const Json& record, const std::string& name) {
  const Json* expected = entry_of(record, file);
  if (!expected) fail(ExitCode::checkpoint, directory, "/", name, ": no ", hashes_key, " of ", file);
  const std::string path = directory + "/" + file;
  if (!fs::exists(path)) fail(ExitCode::checkpoint, "checkpoint '", directory, "' lacks ", file);
  if (!expected->is_string() || sha256_file(path) != expected->get<std::string>()) {
    fail(ExitCode::checkpoint, "'", path, "' is cut or changed: its SHA-256 differs from the one in ", name);
  }
}

}  // namespace satformer
