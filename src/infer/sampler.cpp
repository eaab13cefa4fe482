#include "infer/sampler.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <unordered_map>
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
  if (!(o.min_p >= 0 && o.min_p <= 1)) fail(ExitCode::usage, "min-p ", o.min_p, " must be at least 0 and at most 1");
  if (!(o.repetition_penalty > 0) || std::isinf(o.repetition_penalty)) {
    fail(ExitCode::usage, "repetition penalty ", o.repetition_penalty, " must be greater than 0");
  }
}

bool SamplingOptions::changes_logits() const {
  return repetition_penalty != 1 || presence_penalty != 0 || frequency_penalty != 0 || !bias.empty();
}

void apply_penalties(std::span<float> logits, const SamplingOptions& options, std::span<const std::int64_t> prompt,
                     std::span<const std::int64_t> generated) {
  std::unordered_map<std::int64_t, std::int64_t> counts;  // of generated tokens; 0: the prompt's alone
  for (const std::int64_t id : prompt) counts[id] += 0;
  for (const std::int64_t id : generated) ++counts[id];
  const auto repetition = static_cast<float>(options.repetition_penalty);
  for (const auto& [id, count] : counts) {
    float& logit = logits[static_cast<std::size_t>(id)];
    logit = logit > 0 ? logit / repetition : logit * repetition;
    if (count > 0) {
      logit -= static_cast<float>(options.presence_penalty + options.frequency_penalty * static_cast<double>(count));
    }
  }
  for (const auto& [id, value] : options.bias) logits[static_cast<std::size_t>(id)] += static_cast<float>(value);
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
  if (options.min_p > 0) {
    // The likeliest token's weight is 1, and it always stays.
    std::size_t left = 0;
    total = 0;
    for (std::size_t i = 0; i < kept; ++i) {
      if (weight[i] < options.min_p) continue;
      total += weight[i];
      weight[left] = weight[i];
      order[left++] = order[i];
    }
    kept = left;
  }
  double threshold = Philox(options.seed, row).uniform(position) * total;
  for (std::size_t i = 0; i < kept; ++i) {
    threshold -= weight[i];
    if (threshold < 0) return order[i];
  }
  return order[kept - 1];
}

}  // namespace satformer
