#include "data/numpy_random.h"

#include <array>
#include <bit>

namespace satformer {
namespace {

using Wide = unsigned __int128;

constexpr Wide multiplier = (Wide{0x2360ED051FC65DA4u} << 64) | 0x4385DF649FCCF645u;

// SeedSequence(seed).generate_state(4, uint64) of a seed below 2^64.
std::array<std::uint64_t, 4> seed_sequence(std::uint64_t seed) {
  constexpr std::uint32_t init_a = 0x43B0D7E5, mult_a = 0x931E8875, init_b = 0x8B51F9DD, mult_b = 0x58F38DED;
  constexpr std::uint32_t mix_left = 0xCA01F9DD, mix_right = 0x4973F715;
  std::uint32_t constant = init_a;
  const auto hash = [&](std::uint32_t value) {
    value ^= constant;
    constant *= mult_a;
    value *= constant;
    return value ^ (value >> 16);
  };
  // The seed fills at most two of the pool's four words; the others hash zero, as an absent word does.
  std::array<std::uint32_t, 4> pool{};
  const std::uint32_t entropy[4] = {static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32), 0, 0};
  for (std::size_t i = 0; i < 4; ++i) pool[i] = hash(entropy[i]);
  for (std::size_t from = 0; from < 4; ++from) {
    for (std::size_t to = 0; to < 4; ++to) {
      if (from == to) continue;
      const std::uint32_t mixed = mix_left * pool[to] - mix_right * hash(pool[from]);
      pool[to] = mixed ^ (mixed >> 16);
    }
  }
  std::array<std::uint32_t, 8> words{};
  constant = init_b;
  for (std::size_t i = 0; i < 8; ++i) {
    std::uint32_t value = pool[i % 4] ^ constant;
    constant *= mult_b;
    value *= constant;
    words[i] = value ^ (value >> 16);
  }
  std::array<std::uint64_t, 4> state{};
  for (std::size_t i = 0; i < 4; ++i) state[i] = words[2 * i] | (std::uint64_t{words[2 * i + 1]} << 32);
  return state;
}

}  // namespace

NumpyRandom::NumpyRandom(std::uint64_t seed) {
  const auto words = seed_sequence(seed);
  increment_ = (((Wide{words[2]} << 64) | words[3]) << 1) | 1;
  state_ = (increment_ + ((Wide{words[0]} << 64) | words[1])) * multiplier + increment_;
}

std::uint64_t NumpyRandom::next64() {
  state_ = state_ * multiplier + increment_;
  const auto folded = static_cast<std::uint64_t>(state_ >> 64) ^ static_cast<std::uint64_t>(state_);
  return std::rotr(folded, static_cast<int>(state_ >> 122));
}

std::uint32_t NumpyRandom::next32() {
  if (std::exchange(has_half_, false)) return high_half_;
  const std::uint64_t bits = next64();
  has_half_ = true;
  high_half_ = static_cast<std::uint32_t>(bits >> 32);
  return static_cast<std::uint32_t>(bits);
}

std::uint64_t NumpyRandom::bounded(std::uint64_t max) {
  if (max == 0) return 0;
  const std::uint64_t mask = ~std::uint64_t{0} >> std::countl_zero(max);
  for (;;) {
    const std::uint64_t value = (max <= UINT32_MAX ? next32() : next64()) & mask;
    if (value <= max) return value;
  }
}

}  // namespace satformer
