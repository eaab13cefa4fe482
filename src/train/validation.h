// Validation loss over windows in file order: summed loss / summed targets, so that the batch size has no say.
#pragma once

#include <cstdint>
#include <functional>

#include "data/windows.h"
#include "nn/model.h"

namespace satformer {

struct ValidationResult {
  double loss = 0, perplexity = 0;
  std::int64_t windows = 0, tokens = 0;
  bool stopped = false;  // `stop` answered true: no result
};

constexpr std::int64_t windows_per_eval_iter = 64;

// The first `max_windows` windows (all if fewer, or if it is 0), `batch_size` at a time. `progress` gets windows
// done.
ValidationResult validate(Model& model, const TokenWindows& windows, std::int64_t max_windows,
                          std::int64_t batch_size, const std::function<bool()>& stop = {},
                          const std::function<void(std::int64_t done, std::int64_t all)>& progress = {});

}  // namespace satformer
