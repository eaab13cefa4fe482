// Choosing the next token.
#pragma once

#include <cstdint>
#include <span>

namespace satformer {

struct SamplingOptions {
  double temperature = 1.0;  // 0: the largest logit (the lowest id of equals)
  std::int64_t top_k = 0;    // 0: all tokens
  double top_p = 1.0;        // smallest set of tokens whose probabilities sum to at least top_p
  std::uint64_t seed = 0;
};

// Error(usage) naming the value that is out of range.
void check_sampling(const SamplingOptions& options);

// The choice depends only on the logits, the options, the row and the position: not on the batch around it.
std::int64_t sample_token(std::span<const float> logits, const SamplingOptions& options, std::uint64_t row,
                          std::uint64_t position);

}  // namespace satformer
