// The gates of one layer: from the normalised input n_t of its value projection to one number per source, token and
// KV head. W is a linear map, or W_2 silu(W_1 .) with a hidden layer; g the gate function; mean_t the mean over the
// row's tokens up to and including t, pads left out.
//   token_head  g(W n_t)_h        token  g(w n_t)          static  g(s)
//   head        g(W mean_t n)_h   layer  g(w mean_t n)     factorised  layer * head * token, each with its own map
#pragma once

#include "kernels/value_gate/value_gate.h"
#include "nn/value_path.h"

namespace satformer {

// Gates before their last function: the gate of source s is activation(logits[s]).
struct GateLogits {
  std::vector<at::Tensor> logits_BTH;  // one per source; expanded where tokens or heads share a gate
  Gate activation;                     // identity where the functions are already applied (factorised)
};

class LayerGates {
 public:
  // Parameters are named model.layers.<layer>.attn.value_residual_mixing.*.
  LayerGates(const ModelConfig& config, std::int64_t layer, ParameterStore& store);
  // To be called once per layer and pass: with a cache it moves the running sums on.
  GateLogits logits(const at::Tensor& input_BTC, const ValueContext& context) const;
  // Where there is one source and its gates are a linear map of the token, one for each head.
  std::optional<TokenMix> token_mix(ComputeWeights& weights) const;

 private:
  // One map from inputs to gates, before the gate function.
  struct Map {
    bool per_head = true, running = false;
    at::Tensor hidden;  // W_1 [F, C]; undefined: linear
    at::Tensor weight, bias;
  };
  void add_map(const ModelConfig& config, const std::string& name, bool per_head, bool running,
               ParameterStore& store);
  // Of each map, [B, T, its outputs].
  std::vector<at::Tensor> outputs(const at::Tensor& input_BTC, const ValueContext& context) const;
  at::Tensor expanded(const Map& map, const at::Tensor& output, std::int64_t source, at::IntArrayRef BT) const;

  std::int64_t layer_, sources_, kv_heads_;
  Gate gate_;
  std::vector<Map> maps_;  // empty: static
  at::Tensor scalars_;     // static: [sources]
};

}  // namespace satformer
