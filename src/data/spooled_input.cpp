#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "base/error.h"
#include "data/byte_reader.h"

namespace satformer {
namespace {

constexpr std::size_t memory_bytes = std::size_t{1} << 20;

// A file that has no name and goes with its descriptor.
int open_nameless(const std::string& directory) {
  int file = ::open(directory.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
  if (file >= 0) return file;
  std::string name = directory + "/.standard-input-XXXXXX";
  file = ::mkostemp(name.data(), O_CLOEXEC);
  if (file < 0) fail_errno("keep standard input in", directory, errno);
  ::unlink(name.c_str());
  return file;
}

}  // namespace

SpooledInput::~SpooledInput() {
  if (file_ >= 0) ::close(file_);
}

std::size_t SpooledInput::read(std::uint64_t offset, char* to, std::size_t size) {
  const std::lock_guard lock(mutex_);
  if (offset < kept_) {
    size = static_cast<std::size_t>(std::min<std::uint64_t>(size, kept_ - offset));
    if (file_ < 0) {
      std::memcpy(to, memory_.data() + offset, size);
      return size;
    }
    ssize_t count = 0;
    while ((count = ::pread(file_, to, size, static_cast<off_t>(offset))) < 0 && errno == EINTR) {
    }
    if (count <= 0) fail_errno("read the kept", name_, count < 0 ? errno : EIO);
    return static_cast<std::size_t>(count);
  }
  if (offset != total_) fail(ExitCode::internal, name_, ": byte ", offset, " is not kept");
  if (forgotten_ && file_ >= 0) {
    ::close(std::exchange(file_, -1));
    kept_ = 0;
  }
  ssize_t count = 0;
  while ((count = ::read(descriptor_, to, size)) < 0 && errno == EINTR) {
  }
  if (count < 0) fail_errno("read", name_, errno);
  total_ += static_cast<std::uint64_t>(count);
  if (!forgotten_) keep(to, static_cast<std::size_t>(count));
  return static_cast<std::size_t>(count);
}

void SpooledInput::keep(const char* bytes, std::size_t size) {
  std::string_view rest(bytes, size);
  kept_ += size;
  if (file_ < 0) {
    memory_ += rest;
    if (memory_.size() <= memory_bytes) return;
    file_ = open_nameless(directory_);
    rest = memory_;
  }
  while (!rest.empty()) {
    const ssize_t count = ::write(file_, rest.data(), rest.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) fail_errno("keep standard input in", directory_, errno);
    rest.remove_prefix(static_cast<std::size_t>(count));
  }
  memory_ = std::string();
}

void SpooledInput::forget() {
  const std::lock_guard lock(mutex_);
  forgotten_ = true;
}

}  // namespace satformer
