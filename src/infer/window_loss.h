// Loss of a model over windows, and on marked windows its accuracy.
#pragma once

#include <array>
#include <functional>
#include <optional>

#include "data/window_source.h"
#include "nn/model.h"

namespace satformer {

// How often the likeliest token was the target.
struct Accuracy {
  std::int64_t correct = 0, targets = 0;
  double value() const { return targets > 0 ? static_cast<double>(correct) / static_cast<double>(targets) : 0.0; }
  void add(bool hit) {
    correct += hit ? 1 : 0;
    ++targets;
  }
};

// Of the targets that count, by their kind.
struct KindAccuracy {
  std::array<Accuracy, num_token_kinds> kinds = {};
  Accuracy all() const;
  void add(const KindAccuracy& other);
};

struct WindowLoss {
  double loss_sum = 0;  // nats, fp64
  std::int64_t targets = 0;
  std::int64_t windows = 0;
  KindAccuracy accuracy = {};  // windows with marks
  double mean() const { return targets > 0 ? loss_sum / static_cast<double>(targets) : 0.0; }
};

// What came out for one window with marks.
struct WindowScore {
  std::int64_t window = 0;
  double counted_loss = 0;  // nats, of the targets that count
  KindAccuracy accuracy = {};
};

struct WindowLossOptions {
  std::int64_t batch_size = 8;
  std::int64_t max_windows = 0;  // the first n; 0: all
  bool marked = false;           // the loss is of the targets that count alone; the windows have marks
  LayerObserver* observer = nullptr;
  std::optional<std::int64_t> document_end = {};                                       // ForwardOptions::document_end
  std::function<bool(const WindowLoss& so_far, std::int64_t total_windows)> progress;  // false stops
  std::function<void(const WindowScore& score)> scored = {};                           // each window with marks
};

// Every window once, in order; the result does not depend on the batch size beyond rounding (summed loss over summed
// targets). Logits are made in chunks, and with `marked` of the targets that count alone.
WindowLoss window_loss(Model& model, const WindowSource& windows, const WindowLossOptions& options);

}  // namespace satformer
