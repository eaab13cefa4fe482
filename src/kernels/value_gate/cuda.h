// Value mixing on a GPU (cuda.cu). Gated: a warp takes a token, head by head; three H D of traffic forward, three
// backward (four with a gate over heads, whose second reading comes from the cache). Static: element-wise, three and
// five.
#pragma once

#include "kernels/gpu/where.h"
#include "kernels/row_math.h"

namespace satformer::gpu {

template <class T>
struct ValueGate {
  const T* v;           // forward only
  const T* v1;          // forward; backward: read with dlogits
  const float* logits;  // [tokens, heads]
  T* out;               // forward only
  const T* dy;          // backward only
  T* dv1;               // backward, or null
  float* dlogits;       // backward, or null
  int64_t tokens;
  int heads, head_dim;
  int gate;    // rows::GateCode
  bool packs;  // of two
};

// out = lambda1 v1 + lambda2 v, and its gradient.
template <class T>
struct StaticMix {
  const T* v;
  const T* v1;
  const float *lambda1, *lambda2;  // one value each
  T* out;                          // forward only
  const T* dy;                     // backward only
  T* dv;                           // backward, or null
  T* dv1;                          // backward, or null
  float* dots;                     // backward: [partial_blocks, 2], set: sum dy v1, sum dy v; or null
  int64_t count;
  bool packs;
};

template <class T>
void value_gate(const Where& where, const ValueGate<T>& args);
template <class T>
void value_gate_grad(const Where& where, const ValueGate<T>& args);
template <class T>
void static_mix(const Where& where, const StaticMix<T>& args);
template <class T>
void static_mix_grad(const Where& where, const StaticMix<T>& args);

}  // namespace satformer::gpu
