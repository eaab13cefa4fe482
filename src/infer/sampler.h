// Choosing the next token.
#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace satformer {

struct SamplingOptions {
  double temperature = 1.0;  // 0: the largest logit (the lowest id of equals)
  std::int64_t top_k = 0;    // 0: all tokens
  double top_p = 1.0;        // smallest set of tokens whose probabilities sum to at least top_p
  std::uint64_t seed = 0;
  double min_p = 0;  // leaves out tokens of less than this part of the likeliest one's probability
  // Of tokens that the text already has (apply_penalties). Repetition counts the prompt, the others do not.
  double repetition_penalty = 1;                           // divides positive logits, multiplies negative ones
  double presence_penalty = 0, frequency_penalty = 0;      // subtracted once, and once for each occurrence
  std::vector<std::pair<std::int64_t, double>> bias = {};  // added to the logit of an id
  bool changes_logits() const;                             // any of the last four is set
};

// Error(usage) naming the value that is out of range.
void check_sampling(const SamplingOptions& options);

// In place. Ids of `bias` are inside the vocabulary.
void apply_penalties(std::span<float> logits, const SamplingOptions& options, std::span<const std::int64_t> prompt,
                     std::span<const std::int64_t> generated);

// The choice depends only on the logits, the options, the row and the position: not on the batch around it.
std::int64_t sample_token(std::span<const float> logits, const SamplingOptions& options, std::uint64_t row,
                          std::uint64_t position);

}  // namespace satformer
