// Random draws of one example: a sequence that (seed, task, example number) alone determines.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "base/random.h"

namespace satformer {

class Draws {
 public:
  Draws(std::uint64_t seed, std::string_view task, std::int64_t example)
      : random_(seed ^ hash_name(task), static_cast<std::uint64_t>(example)) {}

  std::uint64_t next() { return random_.bits(counter_++); }
  double uniform() { return random_.uniform(counter_++); }  // [0, 1)
  std::int64_t below(std::int64_t n);                       // 0..n-1, n >= 1
  std::int64_t between(std::int64_t first, std::int64_t last) { return first + below(last - first + 1); }
  // `count` different numbers of 0..n-1 in random order.
  std::vector<std::int64_t> distinct(std::int64_t count, std::int64_t n);
  // `count` different indices, drawn one after the other with these weights among those that are left.
  std::vector<std::int64_t> distinct_weighted(std::int64_t count, std::span<const double> weights);

 private:
  Philox random_;
  std::uint64_t counter_ = 0;
};

}  // namespace satformer
