#include "infer/sampler.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "base/error.h"
#include "base/random.h"

namespace satformer {

void check_sampling(const SamplingOptions& o) {
  if (!(o.temperature >= 0) || std::isinf(o.temperature)) {
    fail(ExitCode::usage, "temperature ", o.temperature, " must be at least 0");
  }
  if (o.top_k < 0) fail(ExitCode::usage, "top-k ", o.top_k, " must be at least 0 (0: all tokens)");
  if (!(o.top_p > 0 && o.top_p <= 1))
    fail(ExitCode::usage, "top-p ", o.top_p, " must be greater than 0 and at most 1");
}

std::int64_t sample_token(std::span<const float> logits, const SamplingOptions& options, std::uint64_t row,
                          std::uint64_t position) {
  if (!std::all_of(logits.begin(), logits.end(), [](float l) { return std::isfinite(l); })) {
    fail(ExitCode::non_finite, "the model's logits are not finite");
  }
  const auto greedy = std::max_element(logits.begin(), logits.end()) - logits.begin();
  if (options.temperature == 0) return greedy;
  std::vector<std::int64_t> order(logits.size());
  std::iota(order.begin(), order.end(), 0);
  const auto larger = [&](std::int64_t a, std::int64_t b) {
    const float la = logits[static_cast<std::size_t>(a)], lb = logits[static_cast<std::size_t>(b)];
    return la != lb ? la > lb : a < b;
  };
  std::size_t kept = order.size();
  if (options.top_k > 0) kept = std::min<std::size_t>(kept, static_cast<std::size_t>(options.top_k));
  const bool sorted = kept < order.size() || options.top_p < 1;
  if (sorted)
    std::partial_sort(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(kept), order.end(), larger);
  const double largest = logits[static_cast<std::size_t>(greedy)];
  std::vector<double> weight(kept);
  double total = 0;
  for (std::size_t i = 0; i < kept; ++i) {
    weight[i] = std::exp((logits[static_cast<std::size_t>(order[i])] - largest) / options.temperature);
    total += weight[i];
  }
  if (options.top_p < 1) {
    double sum = 0;
    for (std::size_t i = 0; i < kept; ++i) {
      sum += weight[i];
      if (sum >= options.top_p * total) {
        kept = i + 1;
        total = sum;
        break;
      }
    }
  }
  double threshold = Philox(options.seed, row).uniform(position) * total;
  for (std::size_t i = 0; i < kept; ++i) {
    threshold -= weight[i];
    if (threshold < 0) return order[i];
  }
  return order[kept - 1];
}

}  // namespace satformer
