// Per-head norm with rotary embedding on a GPU (cuda.cu). A warp takes one head of one token: 2 D elements of traffic
// forward, 3 D backward; the second reading of x comes from the cache.
#pragma once

#include "kernels/gpu/where.h"
#include "kernels/row_math.h"

namespace satformer::gpu {

template <class T>
struct QkNormRope {
  const T* x;           // forward: input; backward: the saved input, read only with a weight
  const T* dy;          // backward only
  const float* weight;  // [head_dim], or null: no norm
  const float* cos;     // [positions, head_dim / 2], rounded to T on use
  const float* sin;
  const int64_t* positions;  // [tokens], or null: token % tokens_per_row
  T* out;                    // forward: y; backward: dx (or null)
  float* dweight;            // backward: [partial_warps, head_dim], set; or null
  int64_t rows;              // tokens * heads
  int64_t tokens_per_row;
  int heads, head_dim;
  float eps;
};

template <class T>
void qk_norm_rope(const Where& where, const QkNormRope<T>& args);
template <class T>
void qk_norm_rope_grad(const Where& where, const QkNormRope<T>& args);

}  // namespace satformer::gpu
