// Row kernels of depth aggregation. A row is one token.
#pragma once

#include "kernels/row_math.h"

namespace satformer::rows {

template <class T>
struct DepthAggregate {
  const T* const* states;    // [states_count], each [tokens, columns]
  const float* weights;      // [tokens, ways, states_count]
  const float* const* pre;   // [states_count] norm weights, or null
  const float* const* post;  // [ways] norm weights, or null
  T* const* out;             // forward: [ways]
  const T* const* dy;        // backward: [ways], each or null (zero)
  T* const* dstates;         // backward: [states_count], each or null
  float* dweights;           // backward: as weights, or null
  float* dpre;               // backward: [states_count, columns], added to; or null
  float* dpost;              // backward: [ways, columns], added to; or null
  float* scratch;            // of the calling thread: (ways + 1) * columns + states_count
  int64_t states_count, ways, columns;
  float eps;
};

template <class T>
SATFORMER_HD float depth_rstd(const DepthAggregate<T>& a, int64_t j, int64_t token) {
  if (!a.pre) return 1.0f;
  const T* x = a.states[j] + token * a.columns;
  float squares = 0.0f;
#pragma omp simd reduction(+ : squares)
  for (int64_t i = 0; i < a.columns; ++i) squares += load(x[i]) * load(x[i]);
  return rsqrt_fp32(squares / static_cast<float>(a.columns) + a.eps);
}

// sums[c] = sum_j w[c,j] pre_j(X_j); keeps the reciprocal norms of the states.
template <class T>
SATFORMER_HD void depth_sums(const DepthAggregate<T>& a, int64_t token, float* sums, float* rstds) {
  const int64_t C = a.columns, N = a.states_count;
  const float* w = a.weights + token * a.ways * N;
#pragma omp simd
  for (int64_t i = 0; i < a.ways * C; ++i) sums[i] = 0.0f;
  for (int64_t j = 0; j < N; ++j) {
    const T* x = a.states[j] + token * C;
    const float rstd = depth_rstd(a, j, token);
    rstds[j] = rstd;
    int64_t c = 0;
    for (; c + 4 <= a.ways; c += 4) {
      const float w0 = w[c * N + j] * rstd, w1 = w[(c + 1) * N + j] * rstd, w2 = w[(c + 2) * N + j] * rstd,
                  w3 = w[(c + 3) * N + j] * rstd;
      float* s = sums + c * C;
      if (a.pre) {
        const float* scale = a.pre[j];
#pragma omp simd
        for (int64_t i = 0; i < C; ++i) {
          const float n = load(x[i]) * scale[i];
          s[i] += w0 * n;
          s[i + C] += w1 * n;
          s[i + 2 * C] += w2 * n;
          s[i + 3 * C] += w3 * n;
        }
      } else {
#pragma omp simd
        for (int64_t i = 0; i < C; ++i) {
          const float n = load(x[i]);
          s[i] += w0 * n;
          s[i + C] += w1 * n;
          s[i + 2 * C] += w2 * n;
          s[i + 3 * C] += w3 * n;
        }
      }
    }
    for (; c < a.ways; ++c) {
      const float wc = w[c * N + j] * rstd;
      float* s = sums + c * C;
      if (a.pre) {
        const float* scale = a.pre[j];
#pragma omp simd
        for (int64_t i = 0; i < C; ++i) s[i] += wc * (load(x[i]) * scale[i]);
      } else {
#pragma omp simd
        for (int64_t i = 0; i < C; ++i) s[i] += wc * load(x[i]);
      }
    }
  }
}

template <class T>
SATFORMER_HD void depth_aggregate(const DepthAggregate<T>& a, int64_t begin, int64_t end) {
  const int64_t C = a.columns;
  float* sums = a.scratch;
  float* rstds = a.scratch + (a.ways + 1) * C;
  for (int64_t token = begin; token < end; ++token) {
    depth_sums(a, token, sums, rstds);
    const T* last = a.states[a.states_count - 1] + token * C;
    for (int64_t c = 0; c < a.ways; ++c) {
      const float* u = sums + c * C;
      T* out = a.out[c] + token * C;
      if (a.post) {
        const float* scale = a.post[c];
        float squares = 0.0f;
#pragma omp simd reduction(+ : squares)
        for (int64_t i = 0; i < C; ++i) squares += u[i] * u[i];
        const float rstd = rsqrt_fp32(squares / static_cast<float>(C) + a.eps);
#pragma omp simd
        for (int64_t i = 0; i < C; ++i) store(out + i, u[i] * rstd * scale[i] + load(last[i]));
      } else {
#pragma omp simd
        for (int64_t i = 0; i < C; ++i) store(out + i, u[i]);
      }
    }
  }
}

// sums[c] becomes its own gradient; dpost is added to.
template <class T>
SATFORMER_HD void depth_sums_grad(const DepthAggregate<T>& a, int64_t token, float* sums) {
  const int64_t C = a.columns;
  for (int64_t c = 0; c < a.ways; ++c) {
    float* u = sums + c * C;
    if (!a.dy[c]) {
#pragma omp simd
      for (int64_t i = 0; i < C; ++i) u[i] = 0.0f;
      continue;
    }
    const T* dy = a.dy[c] + token * C;
    if (!a.post) {
#pragma omp simd
      for (int64_t i = 0; i < C; ++i) u[i] = load(dy[i]);
      continue;
    }
    const float* scale = a.post[c];
    float squares = 0.0f, dot = 0.0f;
#pragma omp simd reduction(+ : squares, dot)
    for (int64_t i = 0; i < C; ++i) {
      squares += u[i] * u[i];
      dot += u[i] * (load(dy[i]) * scale[i]);
    }
    const float rstd = rsqrt_fp32(squares / static_cast<float>(C) + a.eps);
    const float k = rstd * rstd * rstd * (dot / static_cast<float>(C));
    if (a.dpost) {
      float* dpost = a.dpost + c * C;
#pragma omp simd
      for (int64_t i = 0; i < C; ++i) dpost[i] += load(dy[i]) * (u[i] * rstd);
    }
#pragma omp simd
    for (int64_t i = 0; i < C; ++i) u[i] = rstd * (load(dy[i]) * scale[i]) - k * u[i];
  }
}

// dn = sum_c w[c,j] du_c, the gradient of the normalised state.
template <class T>
SATFORMER_HD void depth_state_grad(const DepthAggregate<T>& a, int64_t token, int64_t j, const float* du, float* dn) {
  const int64_t C = a.columns, N = a.states_count;
  const float* w = a.weights + token * a.ways * N + j;
  if (a.ways == 4) {
    const float w0 = w[0], w1 = w[N], w2 = w[2 * N], w3 = w[3 * N];
#pragma omp simd
    for (int64_t i = 0; i < C; ++i) dn[i] = w0 * du[i] + w1 * du[i + C] + w2 * du[i + 2 * C] + w3 * du[i + 3 * C];
    return;
  }
  for (int64_t c = 0; c < a.ways; ++c) {
    const float wc = w[c * N];
    const float* d = du + c * C;
    if (c == 0) {
#pragma omp simd
      for (int64_t i = 0; i < C; ++i) dn[i] = wc * d[i];
    } else {
#pragma omp simd
      for (int64_t i = 0; i < C; ++i) dn[i] += wc * d[i];
    }
  }
}

template <class T>
SATFORMER_HD void depth_aggregate_grad(const DepthAggregate<T>& a, int64_t begin, int64_t end) {
  const int64_t C = a.columns, N = a.states_count;
  float* du = a.scratch;
  float* dn = a.scratch + a.ways * C;
  float* rstds = a.scratch + (a.ways + 1) * C;
  for (int64_t token = begin; token < end; ++token) {
    depth_sums(a, token, du, rstds);
    depth_sums_grad(a, token, du);
    for (int64_t j = 0; j < N; ++j) {
      const T* x = a.states[j] + token * C;
      const float rstd = rstds[j];
      const float* scale = a.pre ? a.pre[j] : nullptr;
      if (a.dweights) {
        for (int64_t c = 0; c < a.ways; ++c) {
          const float* d = du + c * C;
          float dot = 0.0f;
          if (scale) {
#pragma omp simd reduction(+ : dot)
            for (int64_t i = 0; i < C; ++i) dot += d[i] * (load(x[i]) * scale[i]);
          } else {
#pragma omp simd reduction(+ : dot)
            for (int64_t i = 0; i < C; ++i) dot += d[i] * load(x[i]);
          }
          a.dweights[(token * a.ways + c) * N + j] = dot * rstd;
        }
      }
      T* dx = a.dstates[j] ? a.dstates[j] + token * C : nullptr;
      if (!dx && !a.dpre) continue;
      depth_state_grad(a, token, j, du, dn);
      if (scale) {
        if (a.dpre) {
          float* dpre = a.dpre + j * C;
#pragma omp simd
          for (int64_t i = 0; i < C; ++i) dpre[i] += dn[i] * (load(x[i]) * rstd);
        }
        float dot = 0.0f;
#pragma omp simd reduction(+ : dot)
        for (int64_t i = 0; i < C; ++i) dot += load(x[i]) * (dn[i] * scale[i]);
        const float k = rstd * rstd * rstd * (dot / static_cast<float>(C));
#pragma omp simd
        for (int64_t i = 0; i < C; ++i) dn[i] = rstd * (dn[i] * scale[i]) - k * load(x[i]);
      }
      if (!dx) continue;
      if (a.post && j == N - 1) {
        for (int64_t c = 0; c < a.ways; ++c) {
          if (!a.dy[c]) continue;
          const T* dy = a.dy[c] + token * C;
#pragma omp simd
          for (int64_t i = 0; i < C; ++i) dn[i] += load(dy[i]);
        }
      }
#pragma omp simd
      for (int64_t i = 0; i < C; ++i) store(dx + i, dn[i]);
    }
  }
}

}  // namespace satformer::rows
