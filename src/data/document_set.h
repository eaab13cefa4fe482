// Which documents were seen, by 64 bits of a hash: 10 to 15 bytes each, 25 for a moment while the table grows. Of n
// different documents n^2 / 2^65 are expected to be taken for another: for 30 million, one in 40,000 runs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace satformer {

class DocumentSet {
 public:
  // False if it was there. `hash` is evenly spread.
  bool insert(std::uint64_t hash) {
    if (hash == empty) hash = 1;
    if ((count_ + 1) * 100 > slots_.size() * 80) grow();
    if (!place(hash)) return false;
    ++count_;
    return true;
  }
  std::size_t size() const { return count_; }
  std::size_t memory_bytes() const { return slots_.size() * sizeof(std::uint64_t); }

 private:
  static constexpr std::uint64_t empty = 0;

  bool place(std::uint64_t hash) {
    // The slots are in the order of the hashes but for collisions, so that growing walks both tables from end to end.
    auto at = static_cast<std::size_t>((static_cast<unsigned __int128>(hash) * slots_.size()) >> 64);
    while (slots_[at] != empty) {
      if (slots_[at] == hash) return false;
      if (++at == slots_.size()) at = 0;
    }
    slots_[at] = hash;
    return true;
  }
  void grow() {
    const std::vector<std::uint64_t> old = std::exchange(slots_, {});
    slots_.resize(old.size() < 1024 ? 1024 : old.size() + old.size() / 2);
    for (const std::uint64_t hash : old) {
      if (hash != empty) place(hash);
    }
  }

  std::vector<std::uint64_t> slots_;
  std::size_t count_ = 0;
};

}  // namespace satformer
