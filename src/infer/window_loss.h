// Loss of a model over token windows.
#pragma once

#include <functional>
#include <optional>

#include "data/windows.h"
#include "nn/model.h"

namespace satformer {

struct WindowLoss {
  double loss_sum = 0;  // nats, fp64
  std::int64_t targets = 0;
  std::int64_t windows = 0;
  double mean() const { return targets > 0 ? loss_sum / static_cast<double>(targets) : 0.0; }
};

struct WindowLossOptions {
  std::int64_t batch_size = 8;
  std::int64_t max_windows = 0;  // the first n; 0: all
  LayerObserver* observer = nullptr;
  std::optional<std::int64_t> document_end = {};                                       // ForwardOptions::document_end
  std::function<bool(const WindowLoss& so_far, std::int64_t total_windows)> progress;  // false stops
};

// Every window once, in order; the result does not depend on the batch size beyond rounding (summed loss over summed
// targets).
WindowLoss window_loss(Model& model, const TokenWindows& windows, const WindowLossOptions& options);

}  // namespace satformer
