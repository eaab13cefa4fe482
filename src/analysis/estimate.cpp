#include "analysis/estimate.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

namespace satformer {

Estimate window_estimate(const at::Tensor& values_WT, const at::Tensor& where_WT, std::int64_t resamples,
                         const std::string& name) {
  at::Tensor values = values_WT.to(at::kDouble);
  at::Tensor counts = values.new_full({values.size(0)}, static_cast<double>(values.size(1)));
  if (where_WT.defined()) {
    values = values.masked_fill(where_WT.logical_not(), 0);
    counts = where_WT.to(at::kDouble).sum(1);
  }
  const at::Tensor sums = values.sum(1).contiguous();
  counts = counts.contiguous();
  const double *sum = sums.const_data_ptr<double>(), *count = counts.const_data_ptr<double>();
  const auto windows = static_cast<std::size_t>(values.size(0));
  const auto ratio = [&](auto index) {
    double s = 0, c = 0;
    for (std::size_t i = 0; i < windows; ++i) {
      s += sum[index(i)];
      c += count[index(i)];
    }
    return c > 0 ? s / c : std::numeric_limits<double>::quiet_NaN();
  };
  Estimate result;
  result.value = ratio([](std::size_t i) { return i; });
  result.tokens = counts.sum().item<double>() > 0 ? std::llround(counts.sum().item<double>()) : 0;
  if (result.tokens == 0) {
    result.interval = {result.value, result.value};  // of nothing: NaN
    return result;
  }
  // A draw without any token of the kind has no mean: it counts as the estimate itself.
  result.interval =
      bootstrap_interval(windows, resamples, Philox(hash_name(name), 0), [&](std::span<const std::size_t> draw) {
        const double r = ratio([&](std::size_t i) { return draw[i]; });
        return std::isnan(r) ? result.value : r;
      });
  return result;
}

GroupDifference group_difference(const std::vector<double>& first, const std::vector<double>& second,
                                 std::int64_t resamples, const std::string& name) {
  const auto mean = [](const std::vector<double>& values, auto index) {
    double sum = 0;
    for (std::size_t i = 0; i < values.size(); ++i) sum += values[index(i)];
    return sum / static_cast<double>(values.size());
  };
  const auto same = [](std::size_t i) { return i; };
  GroupDifference d;
  d.first = mean(first, same);
  d.second = mean(second, same);
  // One draw holds indices for both groups: texts of each are drawn from it alone.
  const Philox second_draws(hash_name(name), 1);
  std::uint64_t counter = 0;
  d.interval =
      bootstrap_interval(first.size(), resamples, Philox(hash_name(name), 0), [&](std::span<const std::size_t> draw) {
        const double a = mean(first, [&](std::size_t i) { return draw[i]; });
        const double b = mean(second, [&](std::size_t) {
          const auto drawn = second_draws.uniform(counter++) * static_cast<double>(second.size());
          return std::min(static_cast<std::size_t>(drawn), second.size() - 1);
        });
        return b - a;
      });
  return d;
}

Json estimate_json(const Estimate& e) {
  return {{"value", e.value}, {"low", e.interval.low}, {"high", e.interval.high}, {"tokens", e.tokens}};
}

}  // namespace satformer
