// The numbers of Python's random.Random for a given integer seed, so that few-shot examples and bootstrap samples are
// those that lm-eval draws.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace satformer {

class PythonRandom {
 public:
  explicit PythonRandom(std::uint64_t seed);
  std::uint32_t next_32();                                        // of the Mersenne Twister, MT19937
  double uniform();                                               // random(): [0, 1), 53 bits
  std::uint64_t below(std::uint64_t n);                           // randrange(n), 1 <= n <= 2^32
  std::vector<std::size_t> sample(std::size_t n, std::size_t k);  // sample(range(n), k), k <= n
  std::size_t choice_index(std::size_t n) {                       // one index of choices(range(n), k)
    return static_cast<std::size_t>(uniform() * static_cast<double>(n));
  }

 private:
  void refill();
  std::array<std::uint32_t, 624> state_;
  std::size_t at_ = 624;
};

}  // namespace satformer
