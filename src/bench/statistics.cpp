#include "bench/statistics.h"

#include <algorithm>
#include <limits>

#include "base/random.h"

namespace satformer {

double median(std::vector<double> values) {
  if (values.empty()) return std::numeric_limits<double>::quiet_NaN();
  std::sort(values.begin(), values.end());
  const std::size_t half = values.size() / 2;
  return values.size() % 2 == 1 ? values[half] : 0.5 * (values[half - 1] + values[half]);
}

Interval bootstrap_median(std::span<const double> values, std::uint64_t seed) {
  if (values.empty()) return {median({}), median({})};
  constexpr std::size_t resamples = 10'000;
  const Philox random(seed, hash_name("bootstrap"));
  std::vector<double> medians, sample(values.size());
  std::uint64_t counter = 0;
  for (std::size_t r = 0; r < resamples; ++r) {
    for (double& value : sample) {
      const auto index = static_cast<std::size_t>(random.uniform(counter++) * static_cast<double>(values.size()));
      value = values[std::min(index, values.size() - 1)];
    }
    medians.push_back(median(sample));
  }
  std::sort(medians.begin(), medians.end());
  return {medians[resamples / 40], medians[resamples - 1 - resamples / 40]};
}

}  // namespace satformer
