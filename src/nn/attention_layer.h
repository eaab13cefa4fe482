// The attention sublayer: projections, value mixing, QK norm, rotary embedding, cache, attention, output projection.
#pragma once

#include "kernels/attention/attention.h"
#include "kernels/decode/decode.h"
#include "kernels/qk_norm_rope/qk_norm_rope.h"
#include "nn/kv_cache.h"
#include "nn/residual_routing.h"
#include "nn/value_path.h"

namespace satformer {

// What is the same for all layers of one forward pass.
struct PassContext {
  RopeTable rope;
  at::Tensor positions_BT;  // undefined: 0..T-1
  AttentionMask mask;
  at::Tensor query_valid_BT;  // bool; undefined: every query is a token
  // int64, where the document of each position starts; undefined: one document. The mask and the positions follow it.
  at::Tensor document_start_BT;
  KvCache* cache = nullptr;
};

class AttentionLayer {
 public:
  // `output_init_scale` multiplies the initial standard deviation of o_proj.
  AttentionLayer(const ModelConfig& config, std::int64_t layer, double output_init_scale, ParameterStore& store);
  // Inputs [B, T, C], normalised. Returns [B, T, C]; zero in the rows of pads.
  at::Tensor forward(const AttentionInput& input, const ValuePath& value_path, ValueState& values,
                     const ValueContext& context, const PassContext& pass) const;
  // This sublayer's part of a decoding pass. False if it has what such a pass does not know.
  bool describe(ComputeWeights& weights, const PassContext& pass, DecodeLayer& layer) const;

 private:
  std::int64_t layer_, num_heads_, kv_heads_, head_dim_;
  bool rotary_;
  double qk_norm_eps_;
  at::Tensor q_weight_, k_weight_, v_weight_, o_weight_;  // v undefined where the layer projects no values
  at::Tensor q_bias_, k_bias_, v_bias_;                   // undefined without qkv_bias
  at::Tensor o_bias_;                                     // undefined without linear_bias
  at::Tensor q_norm_weight_, k_norm_weight_;              // undefined without qk_norm
};

// The feed-forward sublayer: down(swish(gate x) * up x), or down(act(up x)) with biases where the config has them.
class MlpLayer {
 public:
  MlpLayer(const ModelConfig& config, std::int64_t layer, double output_init_scale, ParameterStore& store);
  at::Tensor forward(const at::Tensor& input_BTC, ComputeWeights& weights) const;
  bool describe(ComputeWeights& weights, DecodeLayer& layer) const;

 private:
  std::string activation_;
  at::Tensor gate_weight_, up_weight_, down_weight_;  // gate undefined: plain
  at::Tensor up_bias_, down_bias_;                    // undefined without them
};

}  // namespace satformer
