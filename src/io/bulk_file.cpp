#include "io/bulk_file.h"

#include <algorithm>
#include <cstring>
#include <new>

namespace satformer {
namespace {

// A whole number of pages and of disk blocks; small enough to stay in a processor's cache from hash to write.
constexpr std::size_t block_bytes = std::size_t{1} << 20, alignment = 4096;

}  // namespace

BulkFile::BulkFile(const std::string& path)
    : file_(path), block_(static_cast<std::byte*>(std::aligned_alloc(alignment, block_bytes))) {
  if (!block_) throw std::bad_alloc();
}

void BulkFile::write(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const std::size_t count = std::min(bytes.size(), block_bytes - filled_);
    std::memcpy(block_.get() + filled_, bytes.data(), count);
    hash_.update(std::span<const std::byte>(block_.get() + filled_, count));
    filled_ += count;
    bytes = bytes.subspan(count);
    if (filled_ < block_bytes) return;
    file_.write_block({block_.get(), filled_});
    filled_ = 0;
  }
}

std::string BulkFile::commit() {
  file_.write(std::span<const std::byte>(block_.get(), filled_));
  file_.commit();
  return hash_.hex();
}

}  // namespace satformer
