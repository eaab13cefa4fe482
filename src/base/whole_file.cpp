#include "base/whole_file.h"

#include "base/descriptor.h"

namespace satformer {
namespace {

std::string read_descriptor(int descriptor, const std::string& name) {
  const struct stat info = examine_file(descriptor, name);
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
  const Descriptor file(path, O_RDONLY);
  return read_descriptor(file.get(), path);
}

std::string read_standard_input() { return read_descriptor(STDIN_FILENO, "standard input"); }

}  // namespace satformer
