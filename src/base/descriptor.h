// An open file, closed on every way out.
#pragma once

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <string>

#include "base/error.h"

namespace satformer {

class Descriptor {
 public:
  // Error(system) naming the file.
  Descriptor(const std::string& path, int flags) : value_(::open(path.c_str(), flags | O_CLOEXEC)) {
    if (value_ < 0) fail_errno("open", path, errno);
  }
  ~Descriptor() { ::close(value_); }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int get() const { return value_; }

 private:
  int value_;
};

// What is known of an open file; folders are refused, whose reading would fail less clearly.
inline struct stat examine_file(int descriptor, const std::string& name) {
  struct stat info {};
  if (::fstat(descriptor, &info) != 0) fail_errno("examine", name, errno);
  if (S_ISDIR(info.st_mode)) fail_errno("read", name, EISDIR);
  return info;
}

}  // namespace satformer
