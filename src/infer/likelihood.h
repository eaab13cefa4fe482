// Log-likelihoods of continuations given contexts, in batches. Requests that belong together (the choices of a
// question) share their common beginning: it is computed once and kept in the KV cache.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "nn/model.h"

namespace satformer {

struct LikelihoodRequest {
  std::vector<std::int64_t> context, continuation;  // at least one token each; only the continuation is scored
};

struct Likelihood {
  double sum = 0;      // nats, over the continuation's tokens
  bool greedy = true;  // each of them has the largest logit
};

struct LikelihoodOptions {
  std::int64_t batch_size = 16;  // rows computed at once
  std::int64_t max_length = 0;   // longest input in tokens; 0: the model's context. Contexts lose their beginning
  LayerObserver* observer = nullptr;
  // Called once for each group, in the order of completion (long ones first); false stops.
  std::function<bool(std::size_t group, std::span<const Likelihood> results)> done;
};

// Error(data) naming both numbers if the continuation is longer than `max_length` or an id is outside the vocabulary;
// also for an empty context or continuation.
void check_request(const LikelihoodRequest& request, std::int64_t max_length, std::int64_t vocab_size);

// Every group gives what each of its requests gives alone, up to rounding. Error(non_finite) if the model's loss is
// not finite.
void score_groups(Model& model, std::span<const std::vector<LikelihoodRequest>> groups,
                  const LikelihoodOptions& options);
std::vector<Likelihood> score_requests(Model& model, std::span<const LikelihoodRequest> requests,
                                       LikelihoodOptions options);

}  // namespace satformer
