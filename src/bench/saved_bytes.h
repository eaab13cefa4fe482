// How much memory waits for the backward pass.
#pragma once

#include <cstdint>
#include <functional>

#include "nn/model.h"

namespace satformer {

// Bytes of tensors that were made while `work` ran on this thread and still live when it returns, on any device.
// What it frees of memory that was there before is not subtracted.
std::int64_t live_bytes_after(const std::function<void()>& work);

// Bytes that a forward pass with a loss leaves for its backward pass: activations, and the gradients of the head
// that the loss makes on the way. ids, targets [B, T].
std::int64_t saved_bytes(Model& model, const at::Tensor& ids_BT, const at::Tensor& targets_BT,
                         const ForwardOptions& options);

}  // namespace satformer
