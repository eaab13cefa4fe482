// Row kernels of RMS normalisation, with an optional residual added first.
#pragma once

#include "kernels/row_math.h"

namespace satformer::rows {

template <class T>
struct RmsNorm {
  const T* x;
  const T* residual;    // or null
  const float* weight;  // [columns]
  T* y;
  T* sum;  // x + residual; null without residual
  int64_t columns;
  float eps;
};

template <class T>
SATFORMER_HD void rms_norm(const RmsNorm<T>& a, int64_t begin, int64_t end) {
  const int64_t C = a.columns;
  const float* w = a.weight;
  for (int64_t r = begin; r < end; ++r) {
    const T* x = a.x + r * C;
    T* y = a.y + r * C;
    float squares = 0.0f;
    if (a.residual) {
      const T* residual = a.residual + r * C;
      T* sum = a.sum + r * C;
#pragma omp simd reduction(+ : squares)
      for (int64_t i = 0; i < C; ++i) {
        const float s = load(x[i]) + load(residual[i]);
        store(sum + i, s);
        squares += s * s;
      }
      const float rstd = rsqrt_fp32(squares / static_cast<float>(C) + a.eps);
#pragma omp simd
      for (int64_t i = 0; i < C; ++i) store(y + i, (load(x[i]) + load(residual[i])) * rstd * w[i]);
    } else {
#pragma omp simd reduction(+ : squares)
      for (int64_t i = 0; i < C; ++i) {
        const float s = load(x[i]);
        squares += s * s;
      }
      const float rstd = rsqrt_fp32(squares / static_cast<float>(C) + a.eps);
#pragma omp simd
      for (int64_t i = 0; i < C; ++i) store(y + i, load(x[i]) * rstd * w[i]);
    }
  }
}

template <class T>
struct RmsNormGrad {
  const T* x;
  const T* dy;
  const T* dsum;        // gradient that reaches x besides, or null
  const float* weight;  // [columns]
  T* dx;                // or null
  float* dweight;       // [columns], added to; or null
  int64_t columns;
  float eps;
};

// dx = rstd * (w dy - xhat mean(w dy xhat)) + dsum,  dw = sum of dy xhat.
template <class T>
SATFORMER_HD void rms_norm_grad(const RmsNormGrad<T>& a, int64_t begin, int64_t end) {
  const int64_t C = a.columns;
  const float* w = a.weight;
  float* dw = a.dweight;
  for (int64_t r = begin; r < end; ++r) {
    const T* x = a.x + r * C;
    const T* dy = a.dy + r * C;
    float squares = 0.0f, dot = 0.0f;
#pragma omp simd reduction(+ : squares, dot)
    for (int64_t i = 0; i < C; ++i) {
      const float v = load(x[i]);
      squares += v * v;
      dot += v * (load(dy[i]) * w[i]);
    }
    const float rstd = rsqrt_fp32(squares / static_cast<float>(C) + a.eps);
    const float k = rstd * rstd * rstd * (dot / static_cast<float>(C));
    if (a.dx) {
      T* dx = a.dx + r * C;
      if (a.dsum) {
        const T* dsum = a.dsum + r * C;
#pragma omp simd
        for (int64_t i = 0; i < C; ++i) store(dx + i, rstd * (load(dy[i]) * w[i]) - k * load(x[i]) + load(dsum[i]));
      } else {
#pragma omp simd
        for (int64_t i = 0; i < C; ++i) store(dx + i, rstd * (load(dy[i]) * w[i]) - k * load(x[i]));
      }
    }
    if (dw) {
#pragma omp simd
      for (int64_t i = 0; i < C; ++i) dw[i] += load(dy[i]) * (load(x[i]) * rstd);
    }
  }
}

}  // namespace satformer::rows
