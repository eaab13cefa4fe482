// Counter-based random numbers: a value depends only on (seed, stream, counter), so that results do not depend on
// threads, devices or the order of calls. Philox-4x32-10 (Salmon et al., 2011).
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace satformer {

class Philox {
 public:
  Philox(std::uint64_t seed, std::uint64_t stream) : seed_(seed), stream_(stream) {}

  std::array<std::uint32_t, 4> block(std::uint64_t counter) const;
  std::uint64_t bits(std::uint64_t counter) const;          // 64 uniform bits
  double uniform(std::uint64_t counter) const;              // [0, 1), 53 bits
  void normals(std::uint64_t counter, float out[4]) const;  // four N(0,1) values of this counter (Box-Muller)

 private:
  std::uint64_t seed_;
  std::uint64_t stream_;
};

// FNV-1a, 64 bits: names a stream.
std::uint64_t hash_name(std::string_view text);

// A pseudo-random permutation of 0..size-1 evaluated at any index in constant memory (Feistel network with cycle
// walking).
class Permutation {
 public:
  Permutation(std::uint64_t size, std::uint64_t seed, std::uint64_t stream);
  std::uint64_t operator()(std::uint64_t index) const;  // index < size
  std::uint64_t size() const { return size_; }

 private:
  std::uint64_t size_;
  unsigned half_bits_;
  Philox rounds_;
};

}  // namespace satformer
