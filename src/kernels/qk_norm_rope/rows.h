// Row kernels of the per-head norm with rotary embedding. A row is one token: `heads` vectors of `head_dim`.
#pragma once

#include "kernels/row_math.h"

namespace satformer::rows {

template <class T>
struct QkNormRope {
  const T* x;           // forward: input; backward: the saved input, read only with a weight
  const T* dy;          // backward only
  const float* weight;  // [head_dim], or null: no norm
  const float* cos;     // [positions, head_dim / 2], rounded to T on use
  const float* sin;
  const int64_t* positions;  // [tokens], or null: token % tokens_per_row
  T* out;                    // forward: y; backward: dx (or null)
  float* dweight;            // backward: [head_dim], added to; or null
  int64_t tokens_per_row;
  int64_t heads;
  int64_t head_dim;
  float eps;
};

template <class T>
SATFORMER_HD int64_t rope_position(const QkNormRope<T>& a, int64_t token) {
  return a.positions ? a.positions[token] : token % a.tokens_per_row;
}

template <class T>
SATFORMER_HD void qk_norm_rope(const QkNormRope<T>& a, int64_t begin, int64_t end) {
  const int64_t D = a.head_dim, half = D / 2;
  const float* w = a.weight;
  for (int64_t token = begin; token < end; ++token) {
    const float* c = a.cos + rope_position(a, token) * half;
    const float* s = a.sin + rope_position(a, token) * half;
    for (int64_t h = 0; h < a.heads; ++h) {
      const T* x = a.x + (token * a.heads + h) * D;
      T* y = a.out + (token * a.heads + h) * D;
      if (w) {
        float squares = 0.0f;
#pragma omp simd reduction(+ : squares)
        for (int64_t i = 0; i < D; ++i) squares += load(x[i]) * load(x[i]);
        const float rstd = rsqrt_fp32(squares / static_cast<float>(D) + a.eps);
#pragma omp simd
        for (int64_t i = 0; i < half; ++i) {
          const float first = load(x[i]) * rstd * w[i], second = load(x[i + half]) * rstd * w[i + half];
          const float ci = rounded_to<T>(c[i]), si = rounded_to<T>(s[i]);
          store(y + i, first * ci - second * si);
          store(y + i + half, first * si + second * ci);
        }
      } else {
#pragma omp simd
        for (int64_t i = 0; i < half; ++i) {
          const float first = load(x[i]), second = load(x[i + half]);
          const float ci = rounded_to<T>(c[i]), si = rounded_to<T>(s[i]);
          store(y + i, first * ci - second * si);
          store(y + i + half, first * si + second * ci);
        }
      }
    }
  }
}

// The rotation's gradient is the rotation back; then the norm's gradient as in rms_norm_grad.
template <class T>
SATFORMER_HD void qk_norm_rope_grad(const QkNormRope<T>& a, int64_t begin, int64_t end) {
  const int64_t D = a.head_dim, half = D / 2;
  const float* w = a.weight;
  float* dw = a.dweight;
  for (int64_t token = begin; token < end; ++token) {
    const float* c = a.cos + rope_position(a, token) * half;
    const float* s = a.sin + rope_position(a, token) * half;
    for (int64_t h = 0; h < a.heads; ++h) {
      const int64_t at = (token * a.heads + h) * D;
      const T* dy = a.dy + at;
      if (!w) {
        T* dx = a.out + at;
#pragma omp simd
        for (int64_t i = 0; i < half; ++i) {
          const float first = load(dy[i]), second = load(dy[i + half]);
          const float ci = rounded_to<T>(c[i]), si = rounded_to<T>(s[i]);
          store(dx + i, first * ci + second * si);
          store(dx + i + half, second * ci - first * si);
        }
        continue;
      }
      const T* x = a.x + at;
      float squares = 0.0f, dot = 0.0f;
#pragma omp simd reduction(+ : squares, dot)
      for (int64_t i = 0; i < half; ++i) {
        const float x0 = load(x[i]), x1 = load(x[i + half]);
        const float ci = rounded_to<T>(c[i]), si = rounded_to<T>(s[i]);
        const float d0 = load(dy[i]) * ci + load(dy[i + half]) * si;
        const float d1 = load(dy[i + half]) * ci - load(dy[i]) * si;
        squares += x0 * x0 + x1 * x1;
        dot += x0 * (d0 * w[i]) + x1 * (d1 * w[i + half]);
      }
      const float rstd = rsqrt_fp32(squares / static_cast<float>(D) + a.eps);
      const float k = rstd * rstd * rstd * (dot / static_cast<float>(D));
      if (a.out) {
        T* dx = a.out + at;
#pragma omp simd
        for (int64_t i = 0; i < half; ++i) {
          const float ci = rounded_to<T>(c[i]), si = rounded_to<T>(s[i]);
          const float d0 = load(dy[i]) * ci + load(dy[i + half]) * si;
          const float d1 = load(dy[i + half]) * ci - load(dy[i]) * si;
          store(dx + i, rstd * (d0 * w[i]) - k * load(x[i]));
          store(dx + i + half, rstd * (d1 * w[i + half]) - k * load(x[i + half]));
        }
      }
      if (dw) {
#pragma omp simd
        for (int64_t i = 0; i < half; ++i) {
          const float ci = rounded_to<T>(c[i]), si = rounded_to<T>(s[i]);
          dw[i] += (load(dy[i]) * ci + load(dy[i + half]) * si) * (load(x[i]) * rstd);
          dw[i + half] += (load(dy[i + half]) * ci - load(dy[i]) * si) * (load(x[i + half]) * rstd);
        }
      }
    }
  }
}

}  // namespace satformer::rows
