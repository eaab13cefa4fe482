#include "analysis/figures.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

namespace satformer {
namespace {

constexpr double nan = std::numeric_limits<double>::quiet_NaN();

}  // namespace

double mean_of(std::span<const float> values) {
  if (values.empty()) return nan;
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

Concentration concentration(std::span<const float> values) {
  std::vector<double> x(values.size());
  std::transform(values.begin(), values.end(), x.begin(), [](float v) { return std::fabs(static_cast<double>(v)); });
  std::sort(x.begin(), x.end());
  const double sum = std::accumulate(x.begin(), x.end(), 0.0);
  if (!(sum > 0)) return {nan, nan, nan, nan};
  const auto n = static_cast<double>(x.size());
  Concentration result;
  double entropy = 0, weighted = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double p = x[i] / sum;
    if (p > 0) entropy -= p * std::log(p);
    weighted += (2.0 * static_cast<double>(i + 1) - n - 1.0) * x[i];
  }
  result.entropy = x.size() > 1 ? entropy / std::log(n) : 1.0;
  result.gini = weighted / (n * sum);
  const auto top = [&](double share) {
    const auto count = std::max<std::size_t>(1, static_cast<std::size_t>(std::llround(share * n)));
    return std::accumulate(x.end() - static_cast<std::ptrdiff_t>(count), x.end(), 0.0) / sum;
  };
  result.top1 = top(0.01);
  result.top10 = top(0.10);
  return result;
}

double pearson(std::span<const float> x, std::span<const float> y) {
  if (x.size() < 2 || x.size() != y.size()) return nan;
  const double mx = mean_of(x), my = mean_of(y);
  double xx = 0, yy = 0, xy = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double a = x[i] - mx, b = y[i] - my;
    xx += a * a;
    yy += b * b;
    xy += a * b;
  }
  // Rounding of the mean leaves a residue where nothing varies.
  const auto varies = [n = static_cast<double>(x.size())](double squares, double mean) {
    return squares > 1e-20 * n * std::max(mean * mean, 1e-30);
  };
  if (!varies(xx, mx) || !varies(yy, my)) return nan;
  return std::clamp(xy / std::sqrt(xx * yy), -1.0, 1.0);
}

std::vector<float> ranks(std::span<const float> values) {
  std::vector<std::size_t> order(values.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return values[a] < values[b]; });
  std::vector<float> result(values.size());
  for (std::size_t begin = 0; begin < order.size();) {
    std::size_t end = begin + 1;
    while (end < order.size() && values[order[end]] == values[order[begin]]) ++end;
    const auto rank = static_cast<float>(0.5 * static_cast<double>(begin + 1 + end));
    for (std::size_t i = begin; i < end; ++i) result[order[i]] = rank;
    begin = end;
  }
  return result;
}

double spearman(std::span<const float> x, std::span<const float> y) {
  if (x.size() != y.size()) return nan;
  return pearson(ranks(x), ranks(y));
}

std::vector<std::int64_t> average_linkage(std::span<const double> similarity, std::int64_t n, double threshold) {
  const auto size = static_cast<std::size_t>(n);
  std::vector<double> s(similarity.begin(), similarity.end());
  for (double& value : s) {
    if (std::isnan(value)) value = 0;
  }
  std::vector<std::size_t> cluster(size), count(size, 1);
  std::iota(cluster.begin(), cluster.end(), std::size_t{0});
  std::vector<bool> alive(size, true);
  for (;;) {
    double best = -std::numeric_limits<double>::infinity();
    std::size_t first = 0, second = 0;
    for (std::size_t i = 0; i < size; ++i) {
      for (std::size_t j = i + 1; alive[i] && j < size; ++j) {
        if (!alive[j] || s[i * size + j] <= best) continue;
        best = s[i * size + j];
        first = i;
        second = j;
      }
    }
    if (!(best >= threshold)) break;
    const auto a = static_cast<double>(count[first]), b = static_cast<double>(count[second]);
    for (std::size_t k = 0; k < size; ++k) {
      const double joined = (a * s[first * size + k] + b * s[second * size + k]) / (a + b);
      s[first * size + k] = s[k * size + first] = joined;
    }
    count[first] += count[second];
    alive[second] = false;
    for (std::size_t& c : cluster) {
      if (c == second) c = first;
    }
  }
  std::vector<std::int64_t> number(size, -1), result(size);
  std::int64_t next = 0;
  for (std::size_t i = 0; i < size; ++i) {
    std::int64_t& of_cluster = number[cluster[i]];
    if (of_cluster < 0) of_cluster = next++;
    result[i] = of_cluster;
  }
  return result;
}

}  // namespace satformer
