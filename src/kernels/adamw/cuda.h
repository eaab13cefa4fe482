// The optimizer on a GPU (cuda.cu). Tensors travel in batches, cut into pieces of some thousand elements, one per
// block: a step reads gradient, parameter and both moments once and writes the last three.
#pragma once

#include "kernels/gpu/where.h"
#include "kernels/row_math.h"

namespace satformer::gpu {

inline constexpr int batch_tensors = 48;

// Tensors by their first pieces: tensor i has pieces first_piece[i] .. first_piece[i + 1].
struct Batch {
  int64_t first_piece[batch_tensors + 1];
  int64_t count[batch_tensors];
  int tensors;
};
// Adds a tensor of `count` elements; there is room.
void add_to(Batch* batch, int64_t count);

template <class T>
struct AdamW {
  Batch batch;
  float* param[batch_tensors];
  const T* grad[batch_tensors];
  float* m[batch_tensors];
  float* v[batch_tensors];
  float grad_scale;
  float decay;  // 1 - lr * weight_decay
  float beta1, one_minus_beta1, beta2, one_minus_beta2;
  float correction2;  // 1 - beta2^t
  float eps;
  float step_size;  // lr / (1 - beta1^t)
};

template <class T>
struct SumOfSquares {
  Batch batch;
  const T* x[batch_tensors];
  double* sums;  // one per piece, set
};

template <class T>
void adamw(const Where& where, const AdamW<T>& args);
template <class T>
void sum_of_squares(const Where& where, const SumOfSquares<T>& args);

}  // namespace satformer::gpu
