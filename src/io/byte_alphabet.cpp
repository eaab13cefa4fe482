#include "io/byte_alphabet.h"

#include <array>

namespace satformer {
namespace {

constexpr bool prints(int byte) {
  return (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
}

constexpr std::array<char32_t, 256> make_letters() {
  std::array<char32_t, 256> letters{};
  char32_t next = 0x100;
  for (int byte = 0; byte < 256; ++byte) {
    letters[static_cast<std::size_t>(byte)] = prints(byte) ? static_cast<char32_t>(byte) : next++;
  }
  return letters;
}

constexpr std::array<char32_t, 256> letters = make_letters();

}  // namespace

std::string byte_letter(unsigned char byte) {
  const char32_t c = letters[byte];
  if (c < 0x80) return std::string(1, static_cast<char>(c));
  return {static_cast<char>(0xC0 | (c >> 6)), static_cast<char>(0x80 | (c & 0x3F))};  // all are below U+0800
}

int byte_of_letter(char32_t letter) {
  if (letter < 0x100) return prints(static_cast<int>(letter)) ? static_cast<int>(letter) : -1;
  for (std::size_t byte = 0; byte < 256; ++byte) {
    if (letters[byte] == letter) return static_cast<int>(byte);
  }
  return -1;
}

}  // namespace satformer
