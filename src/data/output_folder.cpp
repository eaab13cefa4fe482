#include "data/output_folder.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>

#include "base/error.h"
#include "io/file.h"
#include "io/shards.h"

namespace satformer {
namespace {

namespace fs = std::filesystem;

void remove(const std::string& path) {
  if (::unlink(path.c_str()) != 0 && errno != ENOENT) fail_errno("remove", path, errno);
}

}  // namespace

OutputFolder::OutputFolder(const std::string& path, bool overwrite) : path_(path) {
  created_ = !fs::exists(path);
  make_directories(path);
  descriptor_ = ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor_ < 0) fail_errno("open folder", path, errno);
  try {
    claim(overwrite);
  } catch (...) {
    ::close(descriptor_);
    throw;
  }
}

OutputFolder::~OutputFolder() {
  ::close(descriptor_);
  if (created_) ::rmdir(path_.c_str());  // which leaves a folder that holds something
}

std::string OutputFolder::file(std::string_view name) const { return (fs::path(path_) / name).string(); }

void OutputFolder::publish(std::initializer_list<ShardWriter*> writers, const Tokenizer& tokenizer,
                           const std::string& manifest) const {
  publish(
      [&] {
        for (ShardWriter* writer : writers) writer->publish();
        tokenizer.save(path_);
      },
      manifest);
}

void OutputFolder::publish(const std::function<void()>& write, const std::string& manifest) const {
  write_file_atomic(file(unfinished_marker), "");
  remove(file("manifest.json"));
  for (const std::string_view ending : {std::string_view(".bin"), marks_ending}) {
    for (const std::string& shard : shards(ending)) remove(shard);
  }
  write();
  write_file_atomic(file("manifest.json"), manifest);
  remove(file(unfinished_marker));
  sync_directory(path_);
}

void OutputFolder::claim(bool overwrite) const {
  if (::flock(descriptor_, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
    fail(ExitCode::data, path_, ": another prepare is writing to this folder");
  }
  if (::access(path_.c_str(), W_OK | X_OK) != 0) fail_errno("write to folder", path_, errno);
  const bool unfinished = fs::exists(file(unfinished_marker));
  const bool taken = fs::exists(file("manifest.json")) || !shards(".bin").empty();
  if (taken && !unfinished && !overwrite) {
    fail(ExitCode::data, path_, ": token shards are there already; --overwrite replaces them");
  }
  for (const std::string_view ending : {std::string_view(".bin"), marks_ending}) {
    for (const std::string& left_over : shards(concat(ending, ".tmp"))) remove(left_over);
  }
}

std::vector<std::string> OutputFolder::shards(std::string_view ending) const {
  std::vector<std::string> paths;
  for (const auto& entry : fs::directory_iterator(path_)) {
    const std::string name = entry.path().filename().string();
    if ((name.starts_with("train") || name.starts_with("val")) && name.ends_with(ending)) {
      paths.push_back(entry.path().string());
    }
  }
  return paths;
}

}  // namespace satformer
