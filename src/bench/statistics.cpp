#include "bench/statistics.h"

#include <algorithm>
#include <limits>

namespace satformer {

double median(std::vector<double> values) {
  if (values.empty()) return std::numeric_limits<double>::quiet_NaN();
  std::sort(values.begin(), values.end());
  const std::size_t half = values.size() / 2;
  return values.size() % 2 == 1 ? values[half] : 0.5 * (values[half - 1] + values[half]);
}

Interval bootstrap_median(std::span<const double> values, std::uint64_t seed) {
  if (values.empty()) return {median({}), median({})};
  std::vector<double> sample(values.size());
  return bootstrap_interval(values.size(), 10'000, Philox(seed, hash_name("bootstrap")),
                            [&](std::span<const std::size_t> draw) {
                              for (std::size_t i = 0; i < draw.size(); ++i) sample[i] = values[draw[i]];
                              return median(sample);
                            });
}

}  // namespace satformer
