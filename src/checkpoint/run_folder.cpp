#include "checkpoint/run_folder.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/json.h"
#include "io/file.h"

namespace satformer {
namespace fs = std::filesystem;
namespace {

constexpr const char* temporary_prefix = ".tmp-";
constexpr const char* old_prefix = ".tmp-old-";  // a folder on its way to being replaced

// -1 unless `name` is "step-" and digits.
std::int64_t step_of_name(const std::string& name) {
  const std::string prefix = "step-";
  if (name.rfind(prefix, 0) != 0 || name.size() == prefix.size() || name.size() > 23) return -1;
  for (std::size_t i = prefix.size(); i < name.size(); ++i) {
    if (!std::isdigit(static_cast<unsigned char>(name[i]))) return -1;
  }
  return std::stoll(name.substr(prefix.size()));
}

void remove_tree(const std::string& path) {
  std::error_code error;
  fs::remove_all(path, error);
  if (error) fail_errno("remove", path, error.value());
}

std::vector<fs::path> children(const std::string& path) {
  std::vector<fs::path> list;
  std::error_code error;
  for (fs::directory_iterator it(path, error), end; !error && it != end; it.increment(error))
    list.push_back(it->path());
  if (error && error.value() != ENOENT) fail_errno("list", path, error.value());
  return list;
}

}  // namespace

std::string RunFolder::checkpoint_path(std::int64_t step) const {
  char name[40];
  std::snprintf(name, sizeof name, "step-%08lld", static_cast<long long>(step));
  return path_ + "/checkpoints/" + name;
}

std::int64_t RunFolder::final_step() const {
  const std::string path = final_path() + "/" + final_record;
  if (!fs::exists(path)) return -1;
  const Json json = read_json_file(path, ExitCode::checkpoint);
  const auto step = json.is_object() ? json.find("step") : json.end();
  return step != json.end() && step->is_number_integer() ? step->get<std::int64_t>() : -1;
}

void RunFolder::create() const {
  make_directories(path_ + "/checkpoints");
  const std::string probe = path_ + "/.write-test";
  write_file_atomic(probe, "satformer\n");
  remove_tree(probe);
}

double RunFolder::free_bytes() const {
  std::error_code error;
  fs::path path = fs::absolute(path_, error);
  while (!path.empty() && !fs::exists(path, error) && path != path.root_path()) path = path.parent_path();
  const fs::space_info space = fs::space(path, error);
  return error ? 0 : static_cast<double>(space.available);
}

std::vector<RunFolder::Entry> RunFolder::checkpoints() const {
  std::vector<Entry> entries;
  for (const fs::path& child : children(path_ + "/checkpoints")) {
    const std::int64_t step = step_of_name(child.filename().string());
    if (step >= 0 && fs::is_directory(child)) entries.push_back({step, child.string()});
  }
  std::sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) { return a.step < b.step; });
  return entries;
}

void RunFolder::remove_leftovers() const {
  for (const std::string& folder : {path_, path_ + "/checkpoints"}) {
    for (const fs::path& child : children(folder)) {
      const std::string name = child.filename().string();
      if (!name.starts_with(old_prefix)) continue;
      const std::string place = folder + "/" + name.substr(std::string_view(old_prefix).size());
      if (fs::exists(place)) continue;
      if (std::rename(child.c_str(), place.c_str()) != 0) fail_errno("rename", child.string(), errno);
      sync_directory(folder);
    }
    for (const fs::path& child : children(folder)) {
      if (child.filename().string().starts_with(temporary_prefix)) remove_tree(child.string());
    }
  }
}

void RunFolder::remove_folder(const std::string& path) const {
  // Renamed first, so that a half-removed folder never passes for a whole one.
  const fs::path name = path;
  const std::string parent = name.parent_path().string();
  const std::string doomed = parent + "/" + temporary_prefix + name.filename().string();
  remove_tree(doomed);
  if (std::rename(path.c_str(), doomed.c_str()) != 0) {
    if (errno == ENOENT) return;
    fail_errno("rename", path, errno);
  }
  sync_directory(parent);
  remove_tree(doomed);
}

void RunFolder::prune(std::int64_t keep) const {
  const std::vector<Entry> entries = checkpoints();
  if (keep <= 0 || static_cast<std::int64_t>(entries.size()) <= keep) return;
  const std::size_t surplus = entries.size() - static_cast<std::size_t>(keep);
  for (std::size_t i = 0; i < surplus; ++i) remove_folder(entries[i].path);
}

void RunFolder::clear_after(std::int64_t step) const {
  std::vector<Entry> entries = checkpoints();
  std::reverse(entries.begin(), entries.end());  // the newest first: what is left on the way is a shorter run
  for (const Entry& entry : entries) {
    if (entry.step > step) remove_folder(entry.path);
  }
  if (step >= 0) return;
  for (const std::string& path : {metrics_path(), samples_path()}) remove_tree(path);
  remove_folder(final_path());
}

void RunFolder::replace_folder(const std::string& target,
                               const std::function<void(const std::string& temporary)>& write) const {
  const fs::path path = target;
  const std::string parent = path.parent_path().string();
  const std::string temporary = parent + "/" + temporary_prefix + path.filename().string();
  remove_tree(temporary);
  try {
    make_directories(temporary);
    write(temporary);
    for (const fs::path& child : children(temporary)) sync_file(child.string());
    sync_directory(temporary);
  } catch (...) {
    std::error_code ignored;
    fs::remove_all(temporary, ignored);
    throw;
  }
  const auto move = [](const std::string& from, const std::string& to) {
    if (std::rename(from.c_str(), to.c_str()) != 0) fail_errno("rename", from, errno);
  };
  if (!fs::exists(target)) {
    move(temporary, target);
    return sync_directory(parent);
  }
  // rename(2) replaces an empty folder at most: exchange the two, then drop the old one under the temporary name.
  if (renameat2(AT_FDCWD, temporary.c_str(), AT_FDCWD, target.c_str(), RENAME_EXCHANGE) == 0) {
    sync_directory(parent);
    return remove_tree(temporary);
  }
  if (errno != EINVAL && errno != ENOSYS && errno != ENOTSUP) fail_errno("rename", temporary, errno);
  // A file system that cannot exchange. Between the two renames the old folder has another name, under which
  // remove_leftovers() finds it.
  const std::string old = parent + "/" + old_prefix + path.filename().string();
  remove_tree(old);
  move(target, old);
  move(temporary, target);
  sync_directory(parent);
  remove_tree(old);
}

RunLock::RunLock(const RunFolder& folder, const char* who) {
  const std::string path = folder.path() + "/.lock";
  descriptor_ = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  if (descriptor_ < 0) fail_errno("open", path, errno);
  if (flock(descriptor_, LOCK_EX | LOCK_NB) != 0) {
    const int error = errno;
    close(descriptor_);
    if (error == EWOULDBLOCK) fail(ExitCode::system, who, " '", folder.path(), "'");
    fail_errno("lock", path, error);
  }
}

RunLock::~RunLock() { close(descriptor_); }

}  // namespace satformer
