// Texts cut into parts that are encoded alone and remembered.
#pragma once

#include <algorithm>
#include <bitset>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <mutex>
#include <string_view>
#include <vector>

namespace satformer {

inline constexpr std::string_view space_mark = "\xE2\x96\x81";  // U+2581, a space inside the vocabulary

// Ids of short parts seen lately, one cache line each, two places for a hash value.
class PartCache {
 public:
  PartCache() : entries_(num_entries) {}
  template <class Encode>
  void append(std::string_view part, std::vector<std::int32_t>& ids, const Encode& encode) {
    if (part.size() > sizeof Entry::key) return encode(part, ids);
    const std::size_t at = std::hash<std::string_view>()(part) % num_entries;
    for (const std::size_t place : {at, at ^ 1}) {
      const Entry& entry = entries_[place];
      if (entry.length != part.size() || std::memcmp(entry.key, part.data(), part.size()) != 0) continue;
      ids.insert(ids.end(), entry.ids, entry.ids + entry.count);
      return;
    }
    const std::size_t before = ids.size();
    encode(part, ids);
    const std::size_t count = ids.size() - before;
    if (count > max_ids) return;
    entries_[at ^ 1] = entries_[at];
    Entry& entry = entries_[at];
    entry.length = static_cast<std::uint8_t>(part.size());
    entry.count = static_cast<std::uint8_t>(count);
    std::copy(part.begin(), part.end(), entry.key);
    std::copy(ids.end() - static_cast<std::ptrdiff_t>(count), ids.end(), entry.ids);
  }

 private:
  static constexpr std::size_t num_entries = std::size_t{1} << 17, max_ids = 10;
  struct alignas(64) Entry {
    std::uint8_t length = 0, count = 0;  // no part is empty
    char key[22];
    std::int32_t ids[max_ids];
  };
  static_assert(sizeof(Entry) == 64);
  std::vector<Entry> entries_;
};

// Which characters stand side by side in some piece. Characters outside ASCII share classes, which can only hide a
// border; the space mark has the class of a space.
class Neighbours {
 public:
  void add(std::string_view piece) {
    if (piece.empty()) return;
    for (Character left = read(piece), right; piece.remove_prefix(left.size), !piece.empty(); left = right) {
      right = read(piece);
      joined_.set(left.kind * 256 + right.kind);
    }
  }
  // Length of the part that a non-empty text begins with.
  std::size_t part_length(std::string_view text) const {
    Character left = read(text);
    std::size_t length = left.size;
    while (length < text.size()) {
      const Character right = read(text.substr(length));
      if (!joined_[left.kind * 256 + right.kind]) break;
      length += right.size;
      left = right;
    }
    return length;
  }

 private:
  struct Character {
    std::size_t kind, size;
  };
  static Character read(std::string_view text) {
    const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
    const unsigned char lead = byte(0);
    if (lead < 0x80) return {lead, 1};
    if (text.starts_with(space_mark)) return {' ', space_mark.size()};
    const std::size_t size = std::min<std::size_t>(lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4, text.size());
    return {std::size_t{0x80} | ((byte(size - 1) + byte(size / 2) * 29u) & 0x7Fu), size};
  }
  std::bitset<256 * 256> joined_;
};

// Caches for several threads: each caller at work has one of its own.
class PartCaches {
 public:
  std::unique_ptr<PartCache> take() const {
    const std::lock_guard lock(mutex_);
    if (caches_.empty()) return std::make_unique<PartCache>();
    auto cache = std::move(caches_.back());
    caches_.pop_back();
    return cache;
  }
  void give_back(std::unique_ptr<PartCache> cache) const {
    const std::lock_guard lock(mutex_);
    caches_.push_back(std::move(cache));
  }

 private:
  mutable std::mutex mutex_;
  mutable std::vector<std::unique_ptr<PartCache>> caches_;
};

}  // namespace satformer
