// All layers of a decoding pass with one residual stream, as one sequence of stages on one team of threads:
//   x = x + attention(norm(x)),  x = x + down(swish(gate n) * up n) with n = norm(x),  at the end norm(x)
// with values mixed per token as in value_gate.h. For passes of few tokens over a cache, which read every weight once
// and whose many small operations would otherwise cost as much as the reading. Each step is the kernel that the
// operation of its own uses (rms_norm, linear, value_gate, qk_norm_rope, attention of few queries, swiglu), so that
// the result has the same bits.
#pragma once

#include <optional>
#include <utility>
#include <vector>

#include "kernels/linear/linear.h"
#include "kernels/qk_norm_rope/qk_norm_rope.h"
#include "kernels/tensor.h"
#include "kernels/value_gate/value_gate.h"

namespace satformer {

// How a layer's values follow from a token's own v and its v1 in layer 0: v, or v + gate(x W + b) v1, or
// lambda1 v1 + lambda2 v.
struct TokenMix {
  LinearWeight gate = {};  // W [Hkv, C]; undefined: no gate
  Gate activation = Gate::relu;
  std::optional<std::pair<float, float>> lambdas = {};

  bool gated() const { return gate.dense.defined(); }
};

struct DecodeLayer {
  at::Tensor attention_norm, mlp_norm;  // [C]
  LinearWeight q, k, v, o;              // o without bias or with one
  LinearWeight gate, up, down;
  at::Tensor q_norm, k_norm;  // [D] or undefined
  TokenMix mix;
  at::Tensor keys, values;  // the cache, this pass included: [B, S, Hkv, D], heads and their elements contiguous
};

struct DecodePass {
  at::Tensor x_BTC;  // embedded tokens
  std::vector<DecodeLayer> layers;
  at::Tensor final_norm;  // [C]
  double norm_eps = 0, qk_norm_eps = 0;
  std::int64_t heads = 0, kv_heads = 0, head_dim = 0;
  RopeTable rope;
  at::Tensor positions_BT;  // int64
  at::Tensor slots_BT;      // int64, where in its row of the cache each token goes
  at::Tensor key_valid_BS;  // bool over the cache's slots; undefined: all are tokens
  std::optional<std::int64_t> window;
};

// Whether the pass is one of few tokens (linear.h), on the CPU's fused path, with all tensors of one element type.
bool decode_fits(const DecodePass& pass);
// Keys and values of the tokens go into the cache. Returns the final normalised states [B, T, C].
at::Tensor decode(const DecodePass& pass);

}  // namespace satformer
