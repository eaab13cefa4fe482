// The weighted sum of states on a GPU (cuda.cu). Element-wise: forward reads N states and writes one; backward writes
// N, and reads N more for the weights' gradient, four states at a time over the same piece of dy.
#pragma once

#include "kernels/gpu/where.h"
#include "kernels/row_math.h"

namespace satformer::gpu {

template <class T>
struct DenseAverage {
  const T* states[max_states];
  const float* weights;    // [states_count]
  T* out;                  // forward only
  const T* dy;             // backward only
  T* dstates[max_states];  // backward; each or null
  float* dots;             // backward: [partial_blocks, states_count], set: sum dy X_j; or null
  int states_count;
  int64_t count;
  bool packs;
};

template <class T>
void dense_average(const Where& where, const DenseAverage<T>& args);
template <class T>
void dense_average_grad(const Where& where, const DenseAverage<T>& args);

}  // namespace satformer::gpu
