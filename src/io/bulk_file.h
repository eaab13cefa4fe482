// An AtomicFile for gigabytes: written past the page cache where the file system allows it, which costs a fraction of
// the processor's time and leaves the cache to others, and hashed on the way.
#pragma once

#include <cstdlib>
#include <memory>
#include <string>

#include "io/file.h"

namespace satformer {

class BulkFile {
 public:
  explicit BulkFile(const std::string& path);
  void write(std::span<const std::byte> bytes);
  void write(std::string_view text) { write(std::as_bytes(std::span(text.data(), text.size()))); }
  // Like AtomicFile's. Returns the SHA-256 of what was written.
  std::string commit();

 private:
  struct Free {
    void operator()(void* memory) const { std::free(memory); }
  };
  AtomicFile file_;
  Sha256 hash_;
  std::unique_ptr<std::byte, Free> block_;
  std::size_t filled_ = 0;
};

}  // namespace satformer
