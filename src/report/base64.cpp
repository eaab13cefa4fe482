#include "report/base64.h"

namespace satformer {

std::string base64(std::span<const std::uint8_t> bytes) {
  constexpr char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string out;
  out.reserve((bytes.size() + 2) / 3 * 4);
  for (std::size_t i = 0; i < bytes.size(); i += 3) {
    const std::size_t left = bytes.size() - i;
    const std::uint32_t bits = static_cast<std::uint32_t>(bytes[i]) << 16 | (left > 1 ? bytes[i + 1] << 8 : 0) |
                               (left > 2 ? bytes[i + 2] : 0);
    out += digits[bits >> 18];
    out += digits[bits >> 12 & 63];
    out += left > 1 ? digits[bits >> 6 & 63] : '=';
    out += left > 2 ? digits[bits & 63] : '=';
  }
  return out;
}

}  // namespace satformer
