// What a forward pass lets others watch and replace. Called during the pass, on its thread.
#pragma once

#include "kernels/tensor.h"

#include <cstdint>
#include <functional>

namespace satformer {

// What an observer may ask of an attention sublayer while it runs. Attention and its output projection are linear in
// the values, so that parts of the values give the parts of the output. Both functions take values [B, T, Hkv, D].
struct AttentionView {
  at::Tensor output_BTC;  // what the sublayer gives
  // Through this layer's attention weights and output projection, [B, T, C]. Empty in passes with a cache.
  std::function<at::Tensor(const at::Tensor& values_BTHD)> attend;
  // Through the output projection alone, each KV head's for its group of query heads, [B, T, C].
  std::function<at::Tensor(const at::Tensor& values_BTHD)> project;
};

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
  // After an attention sublayer; the view lives as long as the call.
  virtual void attention(std::int64_t layer, const AttentionView& view) {
    (void)layer;
    (void)view;
  }
  // Output of a block as the residual routing stored it (its main stream) [B, T, C].
  virtual void block_output(std::int64_t layer, const at::Tensor& x_BTC) {
    (void)layer;
    (void)x_BTC;
  }
};

}  // namespace satformer
