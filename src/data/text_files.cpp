#include <glob.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <set>

#include "base/error.h"
#include "data/text_source.h"

namespace satformer {
namespace {

namespace fs = std::filesystem;

Compression compression_by_name(std::string_view name) {
  if (name.ends_with(".gz")) return Compression::gzip;
  return name.ends_with(".zst") || name.ends_with(".zstd") ? Compression::zstd : Compression::none;
}

std::string_view uncompressed_name(std::string_view name) {
  return compression_by_name(name) == Compression::none ? name : name.substr(0, name.rfind('.'));
}

bool has_json_name(std::string_view name) {
  return uncompressed_name(name).ends_with(".jsonl") || uncompressed_name(name).ends_with(".json");
}

bool has_parquet_name(std::string_view name) { return name.ends_with(".parquet"); }

bool is_recognised(std::string_view name) {
  return has_json_name(name) || has_parquet_name(name) || uncompressed_name(name).ends_with(".txt");
}

// Up to 4096 bytes from the beginning.
std::string head_of(const TextInput& input) {
  std::string head(4096, '\0');
  std::size_t size = 0;
  if (input.spool) {
    while (size < head.size()) {
      const std::size_t count = input.spool->read(size, head.data() + size, head.size() - size);
      if (count == 0) break;
      size += count;
    }
  } else {
    errno = 0;
    std::ifstream file(input.path, std::ios::binary);
    if (!file) fail_errno("open", input.path, errno ? errno : EIO);
    file.read(head.data(), static_cast<std::streamsize>(head.size()));
    size = static_cast<std::size_t>(file.gcount());
  }
  head.resize(size);
  return head;
}

void examine(TextInput& input, std::optional<TextFormat> format) {
  const std::string head = head_of(input);
  const bool parquet = head.starts_with("PAR1") || has_parquet_name(input.path);
  input.format = format                      ? *format
                 : parquet                   ? TextFormat::parquet
                 : has_json_name(input.path) ? TextFormat::json_lines
                                             : TextFormat::plain;
  if (input.format == TextFormat::parquet) return;
  input.compression = compression_of(head);
  if (input.compression == Compression::none) input.compression = compression_by_name(input.path);
  if (input.compression == Compression::none && head.find('\0') != std::string::npos) {
    fail(ExitCode::data, input.path, ": not a text file: it has a zero byte among its first ", head.size());
  }
}

class Finder {
 public:
  explicit Finder(const InputRules& rules) : format_(rules.format) {
    for (const std::string& path : rules.exclude) excluded_.insert(canonical(path));
  }

  void add(const std::string& pattern) {
    if (pattern == "-") return add_standard_input();
    std::error_code error;
    if (fs::exists(pattern, error)) return add_path(pattern);
    if (pattern.find_first_of("*?[") == std::string::npos)
      fail(ExitCode::data, "cannot open '", pattern, "': no such file");
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

  void add_standard_input() {
    if (!format_) {
      fail(ExitCode::usage, "standard input has no name that tells its format: say --format text or --format jsonl");
    }
    if (*format_ == TextFormat::parquet) {
      fail(ExitCode::usage, "a Parquet file cannot be read from standard input, since its index is at its end");
    }
    if (!seen_.insert("-").second) {
      ++list_.duplicates;
      return;
    }
    TextInput input{.path = "-"};
    input.spool = std::make_shared<SpooledInput>(STDIN_FILENO, "standard input");
    examine(input, format_);
    list_.files.push_back(std::move(input));
  }

  void add_path(const std::string& path) {
    std::error_code error;
    if (fs::is_directory(path, error)) return add_folder(path);
    if (!fs::is_regular_file(path, error)) fail(ExitCode::data, path, ": neither a regular file nor a folder");
    if (!seen_.insert(canonical(path)).second) {
      ++list_.duplicates;
      return;
    }
    TextInput input{.path = path};
    input.disk_bytes = fs::file_size(path, error);
    if (error) fail_errno("examine", path, error.value());
    examine(input, format_);
    list_.files.push_back(std::move(input));
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
    if (paths.empty()) {
      fail(ExitCode::data, folder,
           ": no .txt, .jsonl or .json file (each also .gz or .zst) nor .parquet file is in this folder");
    }
    std::sort(paths.begin(), paths.end());
    for (const std::string& path : paths) add_path(path);
  }

  std::optional<TextFormat> format_;
  InputList list_;
  std::set<std::string> seen_, excluded_;
};

}  // namespace

std::optional<TextFormat> text_format(const std::string& name) {
  if (name == "auto") return std::nullopt;
  if (name == "text") return TextFormat::plain;
  if (name == "jsonl") return TextFormat::json_lines;
  if (name == "parquet") return TextFormat::parquet;
  const std::vector<std::string> names = {"auto", "text", "jsonl", "parquet"};
  fail(ExitCode::usage, "--format '", name, "' is not one of auto, text, jsonl, parquet.", did_you_mean(name, names));
}

InputList find_inputs(std::span<const std::string> patterns, const InputRules& rules) {
  Finder finder(rules);
  for (const std::string& pattern : patterns) finder.add(pattern);
  return finder.take();
}

}  // namespace satformer
