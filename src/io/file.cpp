#include "io/file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <system_error>
#include <utility>
#include <vector>

#include "base/descriptor.h"
#include "base/error.h"
#include "base/whole_file.h"
#include "io/mapping_faults.h"

namespace satformer {
namespace {

void write_all(int descriptor, const void* data, std::size_t size, const std::string& path) {
  const char* at = static_cast<const char*>(data);
  while (size > 0) {
    const ssize_t count = ::write(descriptor, at, size);
    if (count < 0) {
      if (errno == EINTR) continue;
      fail_errno("write", path, errno);
    }
    at += count;
    size -= static_cast<std::size_t>(count);
  }
}

std::string parent_directory(const std::string& path) {
  const std::string parent = std::filesystem::path(path).parent_path().string();
  return parent.empty() ? "." : parent;
}

}  // namespace

std::string read_file(const std::string& path) { return read_whole(path); }

MappedFile::MappedFile(const std::string& path) : path_(path) {
  const Descriptor file(path, O_RDONLY);
  const auto size = static_cast<std::size_t>(examine_file(file.get(), path).st_size);
  if (size == 0) return;
  void* data = ::mmap(nullptr, size, PROT_READ, MAP_SHARED, file.get(), 0);
  if (data == MAP_FAILED) fail_errno("map", path, errno);
  data_ = static_cast<const std::byte*>(data);
  size_ = size;
  note_mapping(data_, size_, path_);
}

MappedFile::~MappedFile() {
  if (!data_) return;
  forget_mapping(data_);
  ::munmap(const_cast<std::byte*>(data_), size_);
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)),
      size_(std::exchange(other.size_, 0)),
      path_(std::move(other.path_)) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  std::swap(path_, other.path_);
  return *this;
}

AtomicFile::AtomicFile(std::string path) : path_(std::move(path)) {
  // A symbolic link stays one: what it names is replaced, or made if it does not exist yet.
  constexpr int most_links = 40;
  std::error_code error;
  for (int i = 0; i < most_links && std::filesystem::is_symlink(path_, error); ++i) {
    const std::filesystem::path target = std::filesystem::read_symlink(path_, error);
    if (error) fail_errno("read the link", path_, error.value());
    path_ = (std::filesystem::path(path_).parent_path() / target).string();  // an absolute target replaces the rest
  }
  struct stat status {};
  const bool exists = ::stat(path_.c_str(), &status) == 0;
  if (exists && S_ISDIR(status.st_mode)) fail_errno("write", path_, EISDIR);
  in_place_ = exists && !S_ISREG(status.st_mode);  // a device or a pipe
  temporary_ = in_place_ ? path_ : path_ + ".tmp";
  descriptor_ = ::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (descriptor_ < 0) fail_errno("create", temporary_, errno);
}

AtomicFile::~AtomicFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
  if (!temporary_.empty() && !in_place_) ::unlink(temporary_.c_str());
}

void AtomicFile::set_direct(bool direct) {
  const int flags = ::fcntl(descriptor_, F_GETFL);
  if (flags < 0) fail_errno("examine", temporary_, errno);
  const bool set = ::fcntl(descriptor_, F_SETFL, direct ? flags | O_DIRECT : flags & ~O_DIRECT) == 0;
  if (!set && !direct) fail_errno("write", temporary_, errno);
  direct_ = set && direct;
}

void AtomicFile::write_block(std::span<const std::byte> bytes) {
  if (!in_place_ && written_ == 0) set_direct(true);
  while (direct_ && !bytes.empty()) {
    const ssize_t count = ::write(descriptor_, bytes.data(), bytes.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0 && errno != EINVAL) fail_errno("write", temporary_, errno);
    const auto done = static_cast<std::size_t>(count < 0 ? 0 : count);
    written_ += done;
    bytes = bytes.subspan(done);
    // Not for this file system, or cut short at a place that it cannot go on from.
    if (!bytes.empty()) set_direct(false);
  }
  write(bytes);
}

void AtomicFile::write(std::span<const std::byte> bytes) {
  if (direct_ && !bytes.empty()) set_direct(false);
  write_all(descriptor_, bytes.data(), bytes.size(), temporary_);
  written_ += bytes.size();
}

void AtomicFile::write(std::string_view text) { write(std::as_bytes(std::span(text.data(), text.size()))); }

void AtomicFile::close_synced() {
  if (descriptor_ < 0) return;
  if (!in_place_ && ::fsync(descriptor_) != 0) fail_errno("sync", temporary_, errno);
  if (::close(std::exchange(descriptor_, -1)) != 0) fail_errno("close", temporary_, errno);
}

void AtomicFile::commit() {
  close_synced();
  if (in_place_) return;
  if (::rename(temporary_.c_str(), path_.c_str()) != 0) fail_errno("rename to its final name", temporary_, errno);
  temporary_.clear();
  sync_directory(parent_directory(path_));
}

void write_file_atomic(const std::string& path, std::string_view text) {
  AtomicFile file(path);
  file.write(text);
  file.commit();
}

void make_directories(const std::string& path) {
  std::error_code error;
  std::vector<std::string> parents;  // of what is new, whose names must reach the disk
  for (std::filesystem::path at = path; !at.empty() && !std::filesystem::exists(at, error); at = at.parent_path()) {
    parents.push_back(parent_directory(at.string()));
  }
  std::filesystem::create_directories(path, error);
  if (!error && !std::filesystem::is_directory(path, error) && !error) error.assign(ENOTDIR, std::generic_category());
  if (error) fail_errno("create folder", path, error.value());
  for (const std::string& parent : parents) {
    if (::access(parent.c_str(), R_OK) == 0) sync_directory(parent);
  }
}

void sync_directory(const std::string& path) {
  const Descriptor directory(path, O_RDONLY | O_DIRECTORY);
  // Some network file systems cannot sync folders; there the rename alone has to do.
  if (::fsync(directory.get()) != 0 && errno != EINVAL && errno != ENOTSUP) fail_errno("sync", path, errno);
}

void sync_file(const std::string& path) {
  const Descriptor file(path, O_RDONLY);
  if (::fsync(file.get()) != 0) fail_errno("sync", path, errno);
}

AppendFile::AppendFile(const std::string& path) : path_(path) {
  descriptor_ = ::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
  if (descriptor_ < 0) fail_errno("open", path, errno);
}

AppendFile::~AppendFile() { ::close(descriptor_); }

void AppendFile::append(std::string_view text) { write_all(descriptor_, text.data(), text.size(), path_); }

}  // namespace satformer
