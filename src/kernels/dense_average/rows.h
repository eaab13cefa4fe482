// Element-wise kernels of the weighted sum of states.
#pragma once

#include "kernels/row_math.h"

namespace satformer::rows {

template <class T>
struct DenseAverage {
  const T* const* states;  // [count]
  const float* weights;    // [count]
  T* out;                  // forward only
  const T* dy;             // backward only
  T* const* dstates;       // backward: [count], each or null
  double* dots;            // backward: [count], added to: sum dy X_j; or null
  int64_t count;
};

// Blocks stay in the first-level cache while all states pass over them.
template <class T>
SATFORMER_HD void dense_average(const DenseAverage<T>& a, int64_t begin, int64_t end) {
  float sum[1024];
  for (int64_t block = begin; block < end; block += 1024) {
    const int64_t size = block + 1024 < end ? 1024 : end - block;
    const T* x = a.states[0] + block;
    const float w = a.weights[0];
#pragma omp simd
    for (int64_t i = 0; i < size; ++i) sum[i] = w * load(x[i]);
    for (int64_t j = 1; j < a.count; ++j) {
      const T* y = a.states[j] + block;
      const float wj = a.weights[j];
#pragma omp simd
      for (int64_t i = 0; i < size; ++i) sum[i] += wj * load(y[i]);
    }
    T* out = a.out + block;
#pragma omp simd
    for (int64_t i = 0; i < size; ++i) store(out + i, sum[i]);
  }
}

template <class T>
SATFORMER_HD void dense_average_grad(const DenseAverage<T>& a, int64_t begin, int64_t end) {
  for (int64_t block = begin; block < end; block += 1024) {
    const int64_t size = block + 1024 < end ? 1024 : end - block;
    const T* dy = a.dy + block;
    for (int64_t j = 0; j < a.count; ++j) {
      if (a.dstates[j]) {
        T* dx = a.dstates[j] + block;
        const float w = a.weights[j];
#pragma omp simd
        for (int64_t i = 0; i < size; ++i) store(dx + i, w * load(dy[i]));
      }
      if (a.dots) {
        const T* x = a.states[j] + block;
        float dot = 0.0f;
#pragma omp simd reduction(+ : dot)
        for (int64_t i = 0; i < size; ++i) dot += load(dy[i]) * load(x[i]);
        a.dots[j] += static_cast<double>(dot);
      }
    }
  }
}

}  // namespace satformer::rows
