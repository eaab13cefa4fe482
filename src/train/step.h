// Loss and gradients of one optimizer step over its micro-batches.
#pragma once

#include <cstdint>
#include <functional>
#include <span>

#include "nn/model.h"
#include "train/loader.h"
#include "train/step_clock.h"

namespace satformer {

constexpr std::int64_t ignored_target = -100;

struct StepLoss {
  double loss = 0;           // summed cross-entropy / targets
  std::int64_t targets = 0;  // those that count: not ignored_target
  bool stopped = false;      // `stop` answered true between micro-batches: gradients are incomplete
};

// Adds to the parameters' gradients those of: sum over all targets of all micro-batches / number of these targets. So
// the result does not depend on how the windows are cut into micro-batches. Error(data) if no target counts.
// `clock`, begun by the caller, gets the time of the passes.
StepLoss accumulate_gradients(Model& model, std::span<const Batch> batches, const ForwardOptions& options,
                              const std::function<bool()>& stop = {}, StepClock* clock = nullptr);

}  // namespace satformer
