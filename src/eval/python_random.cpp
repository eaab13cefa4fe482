#include "eval/python_random.h"

#include <bit>
#include <cmath>
#include <numeric>
#include <unordered_set>

#include "base/error.h"

namespace satformer {

// Seeding by an array of 32-bit words (Matsumoto and Nishimura, 2002): the words of the seed, lowest first.
PythonRandom::PythonRandom(std::uint64_t seed) {
  constexpr std::size_t N = 624;
  std::vector<std::uint32_t> key = {static_cast<std::uint32_t>(seed)};
  if (seed >> 32) key.push_back(static_cast<std::uint32_t>(seed >> 32));
  state_[0] = 19650218u;
  for (std::size_t i = 1; i < N; ++i) {
    state_[i] = 1812433253u * (state_[i - 1] ^ (state_[i - 1] >> 30)) + static_cast<std::uint32_t>(i);
  }
  std::size_t i = 1, j = 0;
  const auto step = [&](std::uint32_t factor) {
    return state_[i] ^ ((state_[i - 1] ^ (state_[i - 1] >> 30)) * factor);
  };
  const auto advance = [&] {
    if (++i == N) {
      state_[0] = state_[N - 1];
      i = 1;
    }
  };
  for (std::size_t k = 0; k < N; ++k) {
    state_[i] = step(1664525u) + key[j] + static_cast<std::uint32_t>(j);
    advance();
    j = (j + 1) % key.size();
  }
  for (std::size_t k = 1; k < N; ++k) {
    state_[i] = step(1566083941u) - static_cast<std::uint32_t>(i);
    advance();
  }
  state_[0] = 0x80000000u;
}

void PythonRandom::refill() {
  for (std::size_t i = 0; i < 624; ++i) {
    const std::uint32_t y = (state_[i] & 0x80000000u) | (state_[(i + 1) % 624] & 0x7FFFFFFFu);
    state_[i] = state_[(i + 397) % 624] ^ (y >> 1) ^ ((y & 1u) ? 0x9908B0DFu : 0u);
  }
  at_ = 0;
}

std::uint32_t PythonRandom::next_32() {
  if (at_ == 624) refill();
  std::uint32_t y = state_[at_++];
  y ^= y >> 11;
  y ^= (y << 7) & 0x9D2C5680u;
  y ^= (y << 15) & 0xEFC60000u;
  return y ^ (y >> 18);
}

double PythonRandom::uniform() {
  const std::uint32_t a = next_32() >> 5, b = next_32() >> 6;
  return (a * 67108864.0 + b) / 9007199254740992.0;
}

std::uint64_t PythonRandom::below(std::uint64_t n) {
  const int bits = std::bit_width(n);
  const auto draw = [&] {
    if (bits <= 32) return static_cast<std::uint64_t>(next_32() >> (32 - bits));
    const std::uint64_t low = next_32();
    return low | (static_cast<std::uint64_t>(next_32() >> (64 - bits)) << 32);
  };
  std::uint64_t value = draw();
  while (value >= n) value = draw();
  return value;
}

std::vector<std::size_t> PythonRandom::sample(std::size_t n, std::size_t k) {
  if (k > n) fail(ExitCode::internal, "a sample of ", k, " out of ", n);
  std::vector<std::size_t> result(k);
  double set_size = 21;
  if (k > 5) set_size += std::pow(4.0, std::ceil(std::log(3.0 * static_cast<double>(k)) / std::log(4.0)));
  if (static_cast<double>(n) <= set_size) {
    std::vector<std::size_t> pool(n);
    std::iota(pool.begin(), pool.end(), std::size_t{0});
    for (std::size_t i = 0; i < k; ++i) {
      const std::size_t j = below(n - i);
      result[i] = pool[j];
      pool[j] = pool[n - i - 1];
    }
    return result;
  }
  std::unordered_set<std::size_t> selected;
  for (std::size_t i = 0; i < k; ++i) {
    std::size_t j = below(n);
    while (!selected.insert(j).second) j = below(n);
    result[i] = j;
  }
  return result;
}

}  // namespace satformer
