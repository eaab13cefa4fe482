#include "io/shards.h"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <thread>

#include "base/error.h"
#include "base/json.h"
#include "io/mapping_faults.h"

namespace satformer {
namespace {

namespace fs = std::filesystem;

std::vector<std::string> shard_names(const std::string& directory, const std::string& prefix,
                                     std::string_view ending = ".bin") {
  std::vector<std::string> names;
  std::error_code error;
  fs::directory_iterator it(directory, error);
  if (error.value() == ENOENT) fail(ExitCode::data, "the shard folder '", directory, "' is not there");
  if (error.value() == ENOTDIR) fail(ExitCode::data, "the shard folder '", directory, "' is a file, not a folder");
  if (error) fail_errno("open the shard folder", directory, error.value());
  for (const fs::directory_iterator end; it != end; it.increment(error)) {
    const std::string name = it->path().filename().string();
    const bool long_enough = name.size() >= prefix.size() + ending.size();
    if (name.starts_with(prefix) && name.ends_with(ending) && long_enough) names.push_back(name);
  }
  if (error) fail_errno("list the shard folder", directory, error.value());
  std::sort(names.begin(), names.end());
  return names;
}

// First id >= vocab_size, or the number of ids.
template <class Id>
std::size_t first_outside(std::span<const std::byte> bytes, std::int64_t vocab_size) {
  constexpr std::size_t block = 16384;
  Id ids[block];
  const std::size_t count = bytes.size() / sizeof(Id);
  for (std::size_t at = 0; at < count; at += block) {
    const std::size_t size = std::min(block, count - at);
    std::memcpy(ids, bytes.data() + at * sizeof(Id), size * sizeof(Id));
    Id largest = 0;
    for (std::size_t i = 0; i < size; ++i) largest = std::max(largest, ids[i]);
    if (static_cast<std::int64_t>(largest) < vocab_size) continue;
    for (std::size_t i = 0; i < size; ++i) {
      if (static_cast<std::int64_t>(ids[i]) >= vocab_size) return at + i;
    }
  }
  return count;
}

template <class Id>
void copy_ids(const std::byte* from, std::span<std::int64_t> out) {
  for (std::size_t i = 0; i < out.size(); ++i) {
    Id id;
    std::memcpy(&id, from + i * sizeof(Id), sizeof(Id));
    out[i] = static_cast<std::int64_t>(id);
  }
}

struct Manifest {
  std::int64_t bytes_per_id = 2;
  std::string tokenizer_sha256;
  struct File {
    std::int64_t tokens = 0;
    std::string sha256;
    std::string marks, marks_sha256;  // empty: none
  };
  std::map<std::string, File> files;  // by name
  std::vector<std::string> kinds;
  std::int64_t example_tokens = 0;
};

Manifest read_manifest(const std::string& path) {
  const Json json = read_json_file(path, ExitCode::data);
  Manifest manifest;
  try {
    if (!json.is_object() || json.value("format", std::string()) != shard_format) {
      fail(ExitCode::data, path, ": not a manifest of token shards (\"format\" must be \"", shard_format, "\")");
    }
    if (const auto version = json.at("version").get<std::int64_t>(); version != shard_format_version) {
      fail(ExitCode::data, path, ": version ", version, " of the shard format; this program reads version ",
           shard_format_version);
    }
    manifest.bytes_per_id = json.at("bytes_per_id").get<std::int64_t>();
    manifest.tokenizer_sha256 = json.at("tokenizer").at("sha256").get<std::string>();
    for (const Json& file : json.at("files")) {
      Manifest::File& entry = manifest.files[file.at("name").get<std::string>()];
      entry.tokens = file.at("tokens").get<std::int64_t>();
      entry.sha256 = file.value("sha256", std::string());
      if (!file.contains("marks")) continue;
      entry.marks = file["marks"].at("name").get<std::string>();
      entry.marks_sha256 = file["marks"].value("sha256", std::string());
    }
    if (json.contains("kinds")) manifest.kinds = json["kinds"].get<std::vector<std::string>>();
    manifest.example_tokens = json.value("example_tokens", std::int64_t{0});
  } catch (const Json::exception& error) {
    fail(ExitCode::data, path, ": not a manifest of token shards: ", error.what());
  }
  if (manifest.bytes_per_id != 2 && manifest.bytes_per_id != 4) {
    fail(ExitCode::data, path, ": bytes_per_id = ", manifest.bytes_per_id, " must be 2 or 4");
  }
  return manifest;
}

}  // namespace

TokenShards::TokenShards(const std::string& directory, const std::string& prefix) {
  const fs::path folder(directory);
  if (fs::exists(folder / unfinished_marker)) {
    fail(ExitCode::data, directory, ": an unfinished `prepare` left this folder incomplete; run it again");
  }
  const std::vector<std::string> names = shard_names(directory, prefix);
  if (names.empty()) {
    const bool cut_off = !shard_names(directory, prefix, ".bin.tmp").empty();
    fail(ExitCode::data, directory, ": no ", prefix, "*.bin token shard is there",
         cut_off ? ", but one that a `prepare` had begun when it was stopped; run it again" : "");
  }
  const std::string manifest_path = (folder / "manifest.json").string();
  std::optional<Manifest> manifest;
  if (fs::exists(manifest_path)) {
    manifest = read_manifest(manifest_path);
    width_ = static_cast<int>(manifest->bytes_per_id);
    tokenizer_sha256_ = manifest->tokenizer_sha256;
    for (const auto& [name, file] : manifest->files) {
      if (name.starts_with(prefix) && !std::binary_search(names.begin(), names.end(), name)) {
        fail(ExitCode::data, directory, ": ", name, " is in the manifest and not in the folder");
      }
    }
  }
  for (const std::string& name : names) {
    const std::string path = (folder / name).string();
    MappedFile file(path);
    const std::size_t size = file.bytes().size();
    if (size == 0) fail(ExitCode::data, path, ": the token shard is empty");
    if (size % static_cast<std::size_t>(width_) != 0) {
      fail(ExitCode::data, path, ": ", size, " bytes are not a multiple of the ", width_, " bytes of an id");
    }
    const auto tokens = static_cast<std::int64_t>(size / static_cast<std::size_t>(width_));
    if (manifest) {
      const auto it = manifest->files.find(name);
      if (it == manifest->files.end())
        fail(ExitCode::data, path, ": the manifest beside it does not list this shard");
      if (it->second.tokens != tokens) {
        fail(ExitCode::data, path, ": ", tokens, " tokens where the manifest says ", it->second.tokens);
      }
      manifest_sha256_.push_back(it->second.sha256);
    }
    total_ += tokens;
    files_.push_back(std::move(file));
    const Manifest::File entry = manifest ? manifest->files.at(name) : Manifest::File();
    open_marks((folder / name).replace_extension(marks_ending).string(), entry.marks, entry.marks_sha256);
  }
  if (!marks_.empty() && marks_.size() != files_.size()) {
    fail(ExitCode::data, directory, ": ", marks_.size(), " of ", files_.size(), " shards of ", prefix,
         " have marks beside them: all or none must");
  }
  if (manifest) {
    kinds_ = manifest->kinds;
    example_tokens_ = manifest->example_tokens;
  }
}

// The marks of the shard opened last. `expected`: the name that the manifest gives them; empty: none.
void TokenShards::open_marks(const std::string& path, const std::string& expected, const std::string& sha256) {
  const bool there = fs::exists(path);
  if (expected.empty()) {
    if (there) fail(ExitCode::data, path, ": no manifest names these marks");
    return;
  }
  if (fs::path(path).filename() != expected) {
    fail(ExitCode::data, path, ": the manifest names the marks of this shard '", expected, "'");
  }
  if (!there) fail(ExitCode::data, path, ": the marks are in the manifest and not in the folder");
  MappedFile file(path);
  const std::int64_t tokens = shard_tokens(files_.size() - 1);
  if (static_cast<std::int64_t>(file.bytes().size()) != tokens) {
    fail(ExitCode::data, path, ": ", file.bytes().size(), " marks for ", tokens, " tokens");
  }
  marks_.push_back(std::move(file));
  marks_sha256_.push_back(sha256);
}

void TokenShards::check_marks(std::span<const std::string_view> kinds) const {
  if (marks_.empty()) return;
  if (kinds_.size() > kinds.size() || !std::equal(kinds_.begin(), kinds_.end(), kinds.begin())) {
    fail(ExitCode::data, fs::path(marks_[0].path()).parent_path().string(),
         ": the manifest's kinds of tokens are not those that this program knows");
  }
  for (const MappedFile& file : marks_) {
    const auto bytes = file.bytes();
    const auto bad = std::find_if(bytes.begin(), bytes.end(), [&](std::byte mark) {
      return std::to_integer<std::size_t>(mark & std::byte{0x7F}) >= kinds_.size();
    });
    if (bad == bytes.end()) continue;
    fail(ExitCode::data, file.path(), ": the mark at token offset ", bad - bytes.begin(), " is of kind ",
         std::to_integer<int>(*bad & std::byte{0x7F}), "; the manifest names ", kinds_.size(), " kinds");
  }
}

void TokenShards::read_marks(std::size_t shard, std::int64_t offset, std::span<std::byte> out) const {
  const auto count = static_cast<std::int64_t>(out.size());
  if (shard >= marks_.size() || offset < 0 || offset > shard_tokens(shard) - count) {
    fail(ExitCode::internal, "marks ", offset, " to ", offset + count, " of shard ", shard, " were asked for");
  }
  std::memcpy(out.data(), marks_[shard].bytes().data() + offset, out.size());
  check_not_cut(marks_[shard]);
}

std::int64_t TokenShards::shard_tokens(std::size_t shard) const {
  return static_cast<std::int64_t>(files_.at(shard).bytes().size()) / width_;
}

std::string TokenShards::verify_contents() const {
  std::vector<const MappedFile*> all_files;
  std::vector<std::string> expected;
  for (std::size_t i = 0; i < files_.size(); ++i) {
    all_files.push_back(&files_[i]);
    expected.push_back(manifest_sha256_.empty() ? "" : manifest_sha256_[i]);
  }
  for (std::size_t i = 0; i < marks_.size(); ++i) {
    all_files.push_back(&marks_[i]);
    expected.push_back(marks_sha256_[i]);
  }
  std::vector<std::string> found(all_files.size());
  std::atomic<std::size_t> next = 0;
  const auto work = [&] {
    for (std::size_t i = next++; i < all_files.size(); i = next++) {
      Sha256 hash;
      hash.update(all_files[i]->bytes());
      found[i] = hash.hex();
    }
  };
  {
    const std::size_t workers =
        std::min<std::size_t>(all_files.size(), std::max(1u, std::thread::hardware_concurrency()));
    std::vector<std::jthread> threads;
    for (std::size_t i = 1; i < workers; ++i) threads.emplace_back(work);
    work();
  }
  Sha256 all;
  for (std::size_t i = 0; i < all_files.size(); ++i) {
    const std::string& path = all_files[i]->path();
    if (!expected[i].empty() && expected[i] != found[i]) {
      fail(ExitCode::data, path, i < files_.size() ? ": the token shard" : ": the file of marks",
           " was changed or damaged: its SHA-256 is ", found[i], ", the manifest beside it says ", expected[i]);
    }
    all.update(concat(fs::path(path).filename().string(), ' ', found[i], '\n'));
  }
  return all.hex();
}

void TokenShards::check_ids(std::int64_t vocab_size) const {
  for (const MappedFile& file : files_) {
    const std::size_t count = file.bytes().size() / static_cast<std::size_t>(width_);
    const std::size_t at = width_ == 2 ? first_outside<std::uint16_t>(file.bytes(), vocab_size)
                                       : first_outside<std::uint32_t>(file.bytes(), vocab_size);
    if (at == count) continue;
    std::int64_t id = 0;
    const std::byte* from = file.bytes().data() + at * static_cast<std::size_t>(width_);
    if (width_ == 2) copy_ids<std::uint16_t>(from, {&id, 1});
    if (width_ == 4) copy_ids<std::uint32_t>(from, {&id, 1});
    fail(ExitCode::data, file.path(), ": id ", id, " at token offset ", at, " is outside the vocabulary of ",
         vocab_size);
  }
}

bool TokenShards::contains(std::int64_t id) const {
  std::vector<std::int64_t> block(16384);
  for (std::size_t shard = 0; shard < files_.size(); ++shard) {
    const std::int64_t tokens = shard_tokens(shard);
    for (std::int64_t at = 0; at < tokens; at += static_cast<std::int64_t>(block.size())) {
      const auto count = std::min(tokens - at, static_cast<std::int64_t>(block.size()));
      const std::span<std::int64_t> ids(block.data(), static_cast<std::size_t>(count));
      read(shard, at, ids);
      if (std::find(ids.begin(), ids.end(), id) != ids.end()) return true;
    }
  }
  return false;
}

void TokenShards::read(std::size_t shard, std::int64_t offset, std::span<std::int64_t> out) const {
  const auto count = static_cast<std::int64_t>(out.size());
  if (offset < 0 || offset > shard_tokens(shard) - count) {
    fail(ExitCode::internal, files_[shard].path(), ": tokens ", offset, " to ", offset + count, " of ",
         shard_tokens(shard), " were asked for");
  }
  const std::byte* from = files_[shard].bytes().data() + offset * width_;
  width_ == 2 ? copy_ids<std::uint16_t>(from, out) : copy_ids<std::uint32_t>(from, out);
  check_not_cut(files_[shard]);
}

}  // namespace satformer
