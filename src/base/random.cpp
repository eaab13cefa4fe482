#include "base/random.h"

#include <bit>
#include <cmath>
#include <numbers>

namespace satformer {

std::array<std::uint32_t, 4> Philox::block(std::uint64_t counter) const {
  std::uint32_t c0 = static_cast<std::uint32_t>(counter), c1 = static_cast<std::uint32_t>(counter >> 32);
  std::uint32_t c2 = static_cast<std::uint32_t>(stream_), c3 = static_cast<std::uint32_t>(stream_ >> 32);
  std::uint32_t k0 = static_cast<std::uint32_t>(seed_), k1 = static_cast<std::uint32_t>(seed_ >> 32);
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t p0 = std::uint64_t{0xD2511F53} * c0;
    const std::uint64_t p1 = std::uint64_t{0xCD9E8D57} * c2;
    const std::uint32_t n0 = static_cast<std::uint32_t>(p1 >> 32) ^ c1 ^ k0;
    const std::uint32_t n2 = static_cast<std::uint32_t>(p0 >> 32) ^ c3 ^ k1;
    c1 = static_cast<std::uint32_t>(p1);
    c3 = static_cast<std::uint32_t>(p0);
    c0 = n0;
    c2 = n2;
    k0 += 0x9E3779B9;
    k1 += 0xBB67AE85;
  }
  return {c0, c1, c2, c3};
}

std::uint64_t Philox::bits(std::uint64_t counter) const {
  const auto b = block(counter);
  return (std::uint64_t{b[1]} << 32) | b[0];
}

double Philox::uniform(std::uint64_t counter) const { return static_cast<double>(bits(counter) >> 11) * 0x1.0p-53; }

void Philox::normals(std::uint64_t counter, float out[4]) const {
  const auto b = block(counter);
  for (int pair = 0; pair < 2; ++pair) {
    // (0, 1] keeps the logarithm finite.
    const double u = (static_cast<double>(b[2 * pair]) + 1.0) * 0x1.0p-32;
    const double angle = 2.0 * std::numbers::pi * (static_cast<double>(b[2 * pair + 1]) * 0x1.0p-32);
    const double radius = std::sqrt(-2.0 * std::log(u));
    out[2 * pair] = static_cast<float>(radius * std::cos(angle));
    out[2 * pair + 1] = static_cast<float>(radius * std::sin(angle));
  }
}

std::uint64_t hash_name(std::string_view text) {
  std::uint64_t h = 0xCBF29CE484222325u;
  for (const char c : text) {
    h ^= static_cast<unsigned char>(c);
    h *= 0x100000001B3u;
  }
  return h;
}

Permutation::Permutation(std::uint64_t size, std::uint64_t seed, std::uint64_t stream)
    : size_(size), half_bits_(1), rounds_(seed, stream) {
  const unsigned bits = size > 1 ? static_cast<unsigned>(std::bit_width(size - 1)) : 1;
  half_bits_ = (bits + 1) / 2;
}

std::uint64_t Permutation::operator()(std::uint64_t index) const {
  const std::uint64_t mask = (std::uint64_t{1} << half_bits_) - 1;
  std::uint64_t value = index;
  do {
    std::uint64_t left = value >> half_bits_, right = value & mask;
    for (std::uint64_t round = 0; round < 4; ++round) {
      const std::uint64_t mixed = rounds_.bits((right << 3) | round) & mask;
      const std::uint64_t next = left ^ mixed;
      left = right;
      right = next;
    }
    value = (left << half_bits_) | right;
  } while (value >= size_);
  return value;
}

}  // namespace satformer
