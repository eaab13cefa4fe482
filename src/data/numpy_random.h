// numpy's default_rng(seed).shuffle, bit for bit: PCG64 (XSL-RR 128/64) seeded by SeedSequence, bounded numbers by
// masking and rejection.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

namespace satformer {

class NumpyRandom {
 public:
  explicit NumpyRandom(std::uint64_t seed);

  std::uint64_t next64();
  // Half of a 64-bit number, the low one first; the high one is kept for the next call.
  std::uint32_t next32();
  // Uniform in [0, max], as Generator.shuffle draws it.
  std::uint64_t bounded(std::uint64_t max);

  // Generator.shuffle of a list or a one-dimensional array.
  template <class T>
  void shuffle(std::vector<T>& items) {
    for (std::size_t i = items.size(); i-- > 1;) std::swap(items[i], items[bounded(i)]);
  }

 private:
  using Wide = unsigned __int128;

  Wide state_ = 0, increment_ = 0;
  std::uint32_t high_half_ = 0;
  bool has_half_ = false;
};

}  // namespace satformer
