// Continuing prompts with a KV cache.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "infer/prompt_lookup.h"
#include "infer/sampler.h"
#include "nn/model.h"

namespace satformer {

struct GenerateOptions {
  std::int64_t max_new_tokens = 100;
  SamplingOptions sampling;
  std::optional<std::int64_t> stop_token;  // ends a row; not part of its result
  LayerObserver* observer = nullptr;
  // Called with each new token of a row; false stops everything after this token.
  std::function<bool(std::size_t row, std::int64_t id)> on_token;
  // Asked after each new token of a row; true ends the row, which keeps that token.
  std::function<bool(std::size_t row, std::int64_t id)> ends_row;
  // Tokens proposed at most in one step from a row's own text (infer/prompt_lookup.h); 0: none. At temperature 0
  // alone: the result is the one without, and other temperatures are not speculated on.
  std::int64_t speculate = 0;
  SpeculationCounts* speculation = nullptr;  // added to
};

// Prompts of any lengths >= 1 are padded on the left; each row gives what it would give alone. Error(config) if the
// longest prompt and max_new_tokens pass the model's context, with both numbers; Error(data) for an id outside the
// vocabulary.
std::vector<std::vector<std::int64_t>> generate(Model& model, const std::vector<std::vector<std::int64_t>>& prompts,
                                                const GenerateOptions& options);

}  // namespace satformer
