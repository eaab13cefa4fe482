// Generated tasks (data/synthetic) as evaluation tasks: on examples that neither training nor validation has.
#pragma once

#include <optional>

#include "data/synthetic/options.h"
#include "eval/harness.h"
#include "nn/model.h"

namespace satformer {

struct SyntheticEval {
  Model& model;
  const Tokenizer* tokenizer = nullptr;  // for tasks of text
  std::int64_t limit = 0;                // the first n of the val_examples examples; 0: all
  std::int64_t batch_size = 16;
  std::optional<std::int64_t> document_end = {};  // ForwardOptions::document_end
  LayerObserver* observer = nullptr;
  std::function<void(const std::string& text)> progress = {};  // one line, replaced by the next
  Communicator* ranks = nullptr;                               // EvalOptions::ranks
};

// Metrics of an example: acc (share of its counted targets that are the likeliest token), acc_KIND where the task has
// several kinds, exact_match (all of them are). Teacher-forced: answers before a target are the right ones. The
// sample's response is the log-likelihood of the counted targets.
// Errors: config (no example fits the options, ids or positions that the model has not).
TaskResult evaluate_synthetic(const SyntheticOptions& options, const SyntheticEval& eval);

}  // namespace satformer
