// What a forward pass lets others watch and replace. Called during the pass, on its thread.
#pragma once

#include "kernels/tensor.h"

#include <cstdint>

namespace satformer {

class LayerObserver {
 public:
  virtual ~LayerObserver() = default;
  // SATFormer's gates [B, T, Hkv] after the activation, expanded where tokens or heads share one; the returned tensor
  // is used instead. Every source layer's gates come here unless source_gate() is overridden.
  virtual at::Tensor gate(std::int64_t layer, const at::Tensor& alpha_BTH) {
    (void)layer;
    return alpha_BTH;
  }
  // The same for a model with several source layers (value_sources); `source` is the layer that the gate is on.
  virtual at::Tensor source_gate(std::int64_t layer, std::int64_t source, const at::Tensor& alpha_BTH) {
    (void)source;
    return gate(layer, alpha_BTH);
  }
  // Values [B, T, Hkv, D] before and after mixing; the returned tensor replaces the mixed ones.
  virtual at::Tensor values(std::int64_t layer, const at::Tensor& own_BTHD, const at::Tensor& mixed_BTHD) {
    (void)layer;
    (void)own_BTHD;
    return mixed_BTHD;
  }
  // Output of a block as the residual routing stored it (its main stream) [B, T, C].
  virtual void block_output(std::int64_t layer, const at::Tensor& x_BTC) {
    (void)layer;
    (void)x_BTC;
  }
};

}  // namespace satformer
