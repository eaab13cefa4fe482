#include "data/synthetic/draws.h"

#include <numeric>
#include <unordered_set>
#include <utility>

#include "base/error.h"

namespace satformer {

std::int64_t Draws::below(std::int64_t n) {
  if (n < 1) fail(ExitCode::internal, "a draw among ", n, " things");
  const auto count = static_cast<std::uint64_t>(n);
  const std::uint64_t limit = UINT64_MAX - UINT64_MAX % count;  // above it the remainders are not alike
  std::uint64_t value = next();
  while (value >= limit) value = next();
  return static_cast<std::int64_t>(value % count);
}

std::vector<std::int64_t> Draws::distinct(std::int64_t count, std::int64_t n) {
  if (count > n) fail(ExitCode::internal, count, " different things of ", n);
  std::vector<std::int64_t> chosen;
  if (count * 4 < n) {
    std::unordered_set<std::int64_t> taken;
    while (static_cast<std::int64_t>(chosen.size()) < count) {
      const std::int64_t value = below(n);
      if (taken.insert(value).second) chosen.push_back(value);
    }
    return chosen;
  }
  chosen.resize(static_cast<std::size_t>(n));
  std::iota(chosen.begin(), chosen.end(), 0);
  for (std::int64_t i = 0; i < count; ++i) {
    std::swap(chosen[static_cast<std::size_t>(i)], chosen[static_cast<std::size_t>(i + below(n - i))]);
  }
  chosen.resize(static_cast<std::size_t>(count));
  return chosen;
}

std::vector<std::int64_t> Draws::distinct_weighted(std::int64_t count, std::span<const double> weights) {
  if (count > static_cast<std::int64_t>(weights.size())) {
    fail(ExitCode::internal, count, " different things of ", weights.size());
  }
  std::vector<double> left(weights.begin(), weights.end());
  std::vector<std::int64_t> chosen;
  while (static_cast<std::int64_t>(chosen.size()) < count) {
    double rest = uniform() * std::accumulate(left.begin(), left.end(), 0.0);
    std::size_t index = left.size();  // the last one with a weight, should rounding leave a rest
    for (std::size_t i = 0; i < left.size(); ++i) {
      if (left[i] == 0) continue;
      index = i;
      rest -= left[i];
      if (rest < 0) break;
    }
    chosen.push_back(static_cast<std::int64_t>(index));
    left[index] = 0;
  }
  return chosen;
}

}  // namespace satformer
