#include <glob.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <set>

#include "base/error.h"
#include "data/text_source.h"

namespace satformer {
namespace {

namespace fs = std::filesystem;

bool has_gzip_name(std::string_view name) { return name.ends_with(".gz"); }

std::string_view without_gz(std::string_view name) {
  return has_gzip_name(name) ? name.substr(0, name.size() - 3) : name;
}

bool has_json_name(std::string_view name) {
  return without_gz(name).ends_with(".jsonl") || without_gz(name).ends_with(".json");
}

bool is_recognised(std::string_view name) { return has_json_name(name) || without_gz(name).ends_with(".txt"); }

TextInput examine(const std::string& path) {
  TextInput input{.path = path, .json_lines = has_json_name(path), .gzip = has_gzip_name(path), .disk_bytes = 0};
  std::error_code error;
  input.disk_bytes = fs::file_size(path, error);
  if (error) fail_errno("examine", path, error.value());
  errno = 0;
  std::ifstream file(path, std::ios::binary);
  if (!file) fail_errno("open", path, errno ? errno : EIO);
  std::array<char, 4096> head{};
  file.read(head.data(), head.size());
  const std::string_view bytes(head.data(), static_cast<std::size_t>(file.gcount()));
  if (bytes.starts_with("\x1f\x8b")) input.gzip = true;
  if (!input.gzip && bytes.find('\0') != std::string_view::npos) {
    fail(ExitCode::data, path, ": not a text file: it has a zero byte among its first ", bytes.size());
  }
  return input;
}

class Finder {
 public:
  explicit Finder(std::span<const std::string> exclude) {
    for (const std::string& path : exclude) excluded_.insert(canonical(path));
  }

  void add(const std::string& pattern) {
    std::error_code error;
    if (fs::exists(pattern, error)) return add_path(pattern);
    if (pattern.find_first_of("*?[") == std::string::npos) fail_errno("open", pattern, ENOENT);
    glob_t matches{};
    const int status = ::glob(pattern.c_str(), 0, nullptr, &matches);
    const std::vector<std::string> paths(matches.gl_pathv, matches.gl_pathv + matches.gl_pathc);
    ::globfree(&matches);
    if (status == GLOB_NOSPACE) fail(ExitCode::memory, "out of memory while expanding '", pattern, "'");
    if (paths.empty()) fail(ExitCode::data, "'", pattern, "' matches no file");
    for (const std::string& path : paths) add_path(path);
  }

  InputList take() { return std::move(list_); }

 private:
  static std::string canonical(const std::string& path) {
    std::error_code error;
    const fs::path result = fs::canonical(path, error);
    return error ? path : result.string();
  }

  void add_path(const std::string& path) {
    std::error_code error;
    if (fs::is_directory(path, error)) return add_folder(path);
    if (!fs::is_regular_file(path, error)) fail(ExitCode::data, path, ": neither a regular file nor a folder");
    if (!seen_.insert(canonical(path)).second) {
      ++list_.duplicates;
      return;
    }
    list_.files.push_back(examine(path));
  }

  void add_folder(const std::string& folder) {
    std::error_code error;
    std::vector<std::string> paths;
    fs::recursive_directory_iterator it(folder, error);
    if (error) fail_errno("open folder", folder, error.value());
    for (const fs::recursive_directory_iterator end; it != end; it.increment(error)) {
      if (it->is_regular_file(error) && !excluded_.count(canonical(it->path().string()))) {
        if (is_recognised(it->path().filename().string())) {
          paths.push_back(it->path().string());
        } else {
          ++list_.unrecognised;
        }
      }
      if (error) break;
    }
    if (error) fail_errno("read folder", folder, error.value());
    if (paths.empty())
      fail(ExitCode::data, folder, ": no .txt, .jsonl or .json file (each also .gz) is in this folder");
    std::sort(paths.begin(), paths.end());
    for (const std::string& path : paths) add_path(path);
  }

  InputList list_;
  std::set<std::string> seen_, excluded_;
};

}  // namespace

InputList find_inputs(std::span<const std::string> patterns, std::span<const std::string> exclude) {
  Finder finder(exclude);
  for (const std::string& pattern : patterns) finder.add(pattern);
  return finder.take();
}

}  // namespace satformer
