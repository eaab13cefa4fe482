// RMS normalisation on a GPU (cuda.cu). A block of threads takes a row at a time and reads it twice, the second time
// from its cache: HBM sees x (and the residual) once and the result once.
#pragma once

#include "kernels/gpu/where.h"
#include "kernels/row_math.h"

namespace satformer::gpu {

template <class T>
struct RmsNorm {
  const T* x;
  const T* residual;    // or null
  const float* weight;  // [columns], or null
  T* y;
  T* sum;  // x + residual; null without residual
  int64_t rows;
  int columns;
  float eps;
  bool packs;  // columns and addresses allow packs of four
};

template <class T>
struct RmsNormGrad {
  const T* x;
  const T* dy;
  const T* dsum;        // gradient that reaches x besides, or null
  const float* weight;  // [columns], or null
  T* dx;                // or null
  float* dweight;       // [partial_blocks, columns], set; or null
  int64_t rows;
  int columns;
  float eps;
  bool packs;
};

template <class T>
void rms_norm(const Where& where, const RmsNorm<T>& args);
template <class T>
void rms_norm_grad(const Where& where, const RmsNormGrad<T>& args);

}  // namespace satformer::gpu
