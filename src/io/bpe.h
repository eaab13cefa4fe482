// Byte-pair encoding: neighbours are joined by the rank of their pair, the leftmost of equals first.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace satformer {

// Joins of two tokens: rank and result, in one flat table with linear probing.
class PairTable {
 public:
  struct Join {
    std::int32_t rank = -1, token = -1;
  };
  explicit PairTable(std::size_t pairs);
  void insert(std::int32_t left, std::int32_t right, Join join);  // a later one of the same pair replaces it
  const Join* find(std::int32_t left, std::int32_t right) const {
    const std::uint64_t key = key_of(left, right);
    for (std::size_t at = place(key);; at = (at + 1) & mask_) {
      if (keys_[at] == key) return &joins_[at];
      if (keys_[at] == empty) return nullptr;
    }
  }

 private:
  static constexpr std::uint64_t empty = ~std::uint64_t{0};
  static std::uint64_t key_of(std::int32_t left, std::int32_t right) {
    return std::uint64_t{static_cast<std::uint32_t>(left)} << 32 | static_cast<std::uint32_t>(right);
  }
  std::size_t place(std::uint64_t key) const {
    return static_cast<std::size_t>((key * 0x9E3779B97F4A7C15u) >> 20) & mask_;
  }
  std::size_t mask_;
  std::vector<std::uint64_t> keys_;
  std::vector<Join> joins_;
};

// Joins the tokens in `symbols` until no pair can be joined, in place.
void join_pairs(std::vector<std::int32_t>& symbols, const PairTable& pairs);

}  // namespace satformer
