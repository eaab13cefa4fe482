// Fields of a serialised protocol buffer, one after another.
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>
#include <string_view>

namespace satformer {

class ProtobufFields {
 public:
  explicit ProtobufFields(std::string_view message) : rest_(message) {}
  // False at the end, or where the message is damaged.
  bool next() {
    std::uint64_t tag = 0;
    if (rest_.empty() || !varint(tag)) return false;
    field = tag >> 3;
    bytes = {};
    switch (tag & 7) {
      case 0:
        return varint(integer);
      case 1:
        return take(8);
      case 2: {
        std::uint64_t size = 0;
        return varint(size) && take(size);
      }
      case 5:
        return take(4);
      default:
        return false;
    }
  }
  std::uint64_t field = 0, integer = 0;
  std::string_view bytes;
  float number() const {  // of a 32-bit field
    std::uint32_t word = 0;
    if (bytes.size() == sizeof word) std::memcpy(&word, bytes.data(), sizeof word);
    return std::bit_cast<float>(word);
  }

 private:
  bool varint(std::uint64_t& value) {
    value = 0;
    for (int shift = 0; shift < 64 && !rest_.empty(); shift += 7) {
      const auto byte = static_cast<unsigned char>(rest_.front());
      rest_.remove_prefix(1);
      value |= std::uint64_t{byte & 0x7Fu} << shift;
      if (byte < 0x80) return true;
    }
    return false;
  }
  bool take(std::uint64_t size) {
    if (size > rest_.size()) return false;
    bytes = rest_.substr(0, size);
    rest_.remove_prefix(size);
    return true;
  }
  std::string_view rest_;
};

}  // namespace satformer
