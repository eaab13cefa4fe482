#include "base/whole_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "base/error.h"

namespace satformer {
namespace {

std::string read_descriptor(int descriptor, const std::string& name) {
  struct stat info {};
  if (::fstat(descriptor, &info) != 0) fail_errno("examine", name, errno);
  if (S_ISDIR(info.st_mode)) fail_errno("read", name, EISDIR);
  const bool regular = S_ISREG(info.st_mode);
  std::string text;
  if (regular) text.reserve(static_cast<std::size_t>(info.st_size));
  char buffer[1 << 16];
  for (;;) {
    const ssize_t count = ::read(descriptor, buffer, sizeof buffer);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) fail_errno("read", name, errno);
    if (count == 0) return text;
    text.append(buffer, static_cast<std::size_t>(count));
    if (!regular && text.size() > stream_limit) fail_errno("read", name, EFBIG);
  }
}

}  // namespace

std::string read_whole(const std::string& path) {
  struct Descriptor {
    int value;
    ~Descriptor() { ::close(value); }
  };
  const int opened = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (opened < 0) fail_errno("open", path, errno);
  const Descriptor descriptor{opened};
  return read_descriptor(descriptor.value, path);
}

std::string read_standard_input() { return read_descriptor(STDIN_FILENO, "standard input"); }

}  // namespace satformer
