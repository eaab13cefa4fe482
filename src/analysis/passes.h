// Passes of a model over rows of tokens, with the loss of each target.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "nn/model.h"

namespace satformer {

struct PassOptions {
  std::int64_t batch_size = 8;
  std::optional<std::int64_t> document_end = {};  // ForwardOptions::document_end
  LayerObserver* observer = nullptr;
  // Before each batch: its first row, ids and targets [B, T] on the model's device.
  std::function<void(std::int64_t first, const at::Tensor& ids_BT, const at::Tensor& targets_BT)> before;
  std::function<void(std::int64_t done, std::int64_t rows)> progress;
};

// tokens int64 [W, T+1]: T inputs and, from the second on, their targets. Losses fp32 [W, T] on the CPU, without
// gradient. Error(non_finite) if one is not finite.
at::Tensor row_losses(Model& model, const at::Tensor& tokens_WT1, const PassOptions& options);

}  // namespace satformer
