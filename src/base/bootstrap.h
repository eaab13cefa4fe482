// Percentile-bootstrap intervals.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "base/random.h"

namespace satformer {

struct Interval {
  double low = 0, high = 0;
};

// 95 % interval of a statistic of `count` observations: `statistic` gets the indices of a draw with replacement, once
// for each of `resamples` draws, which follow from `random`. NaN without observations or draws.
template <class Statistic>
Interval bootstrap_interval(std::size_t count, std::int64_t resamples, const Philox& random, Statistic statistic) {
  if (count == 0 || resamples < 1) {
    constexpr double nan = std::numeric_limits<double>::quiet_NaN();
    return {nan, nan};
  }
  std::uint64_t counter = 0;
  std::vector<std::size_t> draw(count);
  std::vector<double> values;
  values.reserve(static_cast<std::size_t>(resamples));
  for (std::int64_t r = 0; r < resamples; ++r) {
    for (std::size_t& index : draw) {
      const auto drawn = static_cast<std::size_t>(random.uniform(counter++) * static_cast<double>(count));
      index = std::min(drawn, count - 1);
    }
    values.push_back(statistic(std::span<const std::size_t>(draw)));
  }
  std::sort(values.begin(), values.end());
  const auto at = [&](double q) { return values[static_cast<std::size_t>(q * static_cast<double>(resamples - 1))]; };
  return {at(0.025), at(0.975)};
}

}  // namespace satformer
