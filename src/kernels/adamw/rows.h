// Element-wise kernels of the optimizer.
#pragma once

#include "kernels/adamw/math.h"

namespace satformer::rows {

template <class T>
struct AdamW {
  float* param;
  const T* grad;
  float* m;
  float* v;
  float grad_scale;
  float decay;  // 1 - lr * weight_decay
  float beta1, one_minus_beta1, beta2, one_minus_beta2;
  float correction2;  // 1 - beta2^t
  float eps;
  float step_size;  // lr / (1 - beta1^t)
};

template <class T>
SATFORMER_HD void adamw(const AdamW<T>& a, int64_t begin, int64_t end) {
  float* param = a.param;
  const T* grad = a.grad;
  float* m = a.m;
  float* v = a.v;
  const AdamW<T> c = a;
#pragma omp simd
  for (int64_t i = begin; i < end; ++i) adamw_element(c, param + i, load(grad[i]), m + i, v + i);
}

template <class T>
struct SumOfSquares {
  const T* x;
  double* sum;  // one value, set
};

template <class T>
SATFORMER_HD void sum_of_squares(const SumOfSquares<T>& a, int64_t begin, int64_t end) {
  const T* x = a.x;
  double sum = 0.0;
#pragma omp simd reduction(+ : sum)
  for (int64_t i = begin; i < end; ++i) {
    const double v = static_cast<double>(load(x[i]));
    sum += v * v;
  }
  *a.sum = sum;
}

}  // namespace satformer::rows
