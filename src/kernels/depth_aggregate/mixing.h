// Row kernels of depth aggregation: every state is read once for up to four ways, whose sums stay in registers.
#pragma once

#include "kernels/depth_aggregate/rows.h"
#include "kernels/isa/vectors.h"

namespace satformer::rows {

template <class T>
static inline float depth_rstd(const DepthAggregate<T>& a, int64_t j, int64_t token) {
  if (!a.pre) return 1.0f;
  const T* x = a.states[j] + token * a.columns;
  float squares = 0.0f;
#pragma omp simd reduction(+ : squares)
  for (int64_t i = 0; i < a.columns; ++i) squares += load(x[i]) * load(x[i]);
  return rsqrt_fp32(squares / static_cast<float>(a.columns) + a.eps);
}

// sums[c] = sum_j w[c,j] rstd_j scale_j X_j for W ways.
template <int W, class T>
static inline void depth_sums_of(const DepthAggregate<T>& a, int64_t token, const float* w, const float* rstds,
                                 float* sums) {
  const int64_t C = a.columns, N = a.states_count, row = token * C;
  for_columns(
      C, [&](int64_t i, auto zero) __attribute__((always_inline)) {
        decltype(zero) sum[W] = {};
        for (int64_t j = 0; j < N; ++j) {
          auto n = at(a.states[j] + row + i, zero) * rstds[j];
          if (a.pre) n *= at(a.pre[j] + i, zero);
#pragma GCC unroll 4
          for (int c = 0; c < W; ++c) sum[c] += w[c * N + j] * n;
        }
#pragma GCC unroll 4
        for (int c = 0; c < W; ++c) put(sums + c * C + i, sum[c]);
      });
}

// sums[c] = sum_j w[c,j] pre_j(X_j); keeps the reciprocal norms of the states.
template <class T>
static inline void depth_sums(const DepthAggregate<T>& a, int64_t token, float* sums, float* rstds) {
  const int64_t N = a.states_count;
  for (int64_t j = 0; j < N; ++j) rstds[j] = depth_rstd(a, j, token);
  const float* w = a.weights + token * a.ways * N;
  int64_t c = 0;
  for (; c + 4 <= a.ways; c += 4) depth_sums_of<4>(a, token, w + c * N, rstds, sums + c * a.columns);
  for (; c < a.ways; ++c) depth_sums_of<1>(a, token, w + c * N, rstds, sums + c * a.columns);
}

template <class T>
static inline void depth_aggregate(const DepthAggregate<T>& a, int64_t begin, int64_t end) {
  const int64_t C = a.columns;
  float* sums = a.scratch;
  float* rstds = a.scratch + a.ways * C;
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
static inline void depth_sums_grad(const DepthAggregate<T>& a, int64_t token, float* sums) {
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

// dots[c] = du_c . (scale X) for W ways; scale may be null.
template <int W, class T>
static inline void depth_dots(const float* du, const T* x, const float* scale, int64_t columns, float* dots) {
  Floats sum[W] = {};
  int64_t i = 0;
  for (; i + lanes <= columns; i += lanes) {
    Floats n = floats_at(x + i);
    if (scale) n *= floats_at(scale + i);
#pragma GCC unroll 4
    for (int c = 0; c < W; ++c) sum[c] += n * floats_at(du + c * columns + i);
  }
#pragma GCC unroll 4
  for (int c = 0; c < W; ++c) {
    dots[c] = sum_of(sum[c]);
    for (int64_t r = i; r < columns; ++r) {
      dots[c] += load(x[r]) * (scale ? scale[r] : 1.0f) * du[c * columns + r];
    }
  }
}

// From dn = sum_c w[c,j] du_c, the gradient of the normalised state j, to that of the state. `dot` is dn . (scale X).
// W: the ways, or 0 for any number of them.
template <int W, class T>
static inline void depth_state_grad(const DepthAggregate<T>& a, int64_t token, int64_t j, const float* du, float rstd,
                                    float dot) {
  const int64_t C = a.columns, N = a.states_count, row = token * C;
  const float* w = a.weights + token * a.ways * N + j;
  const float* scale = a.pre ? a.pre[j] : nullptr;
  const T* x = a.states[j] + row;
  const T* passed = a.passed[j] ? a.passed[j] + row : nullptr;
  T* dx = a.dstates[j] ? a.dstates[j] + row : nullptr;
  float* dpre = a.dpre && scale ? a.dpre + j * C : nullptr;
  const float k = rstd * rstd * rstd * (dot / static_cast<float>(C));
  const bool last = a.post && j == N - 1;
  for_columns(
      C, [&](int64_t i, auto zero) __attribute__((always_inline)) {
        auto dn = zero;
        if constexpr (W > 0) {
#pragma GCC unroll 4
          for (int c = 0; c < W; ++c) dn += w[c * N] * at(du + c * C + i, zero);
        } else {
          for (int64_t c = 0; c < a.ways; ++c) dn += w[c * N] * at(du + c * C + i, zero);
        }
        if (scale) {
          const auto xs = at(x + i, zero);
          if (dpre) put(dpre + i, at(dpre + i, zero) + dn * (xs * rstd));
          dn = rstd * (dn * at(scale + i, zero)) - k * xs;
        }
        if (!dx) return;
        if (passed) dn += at(passed + i, zero);
        for (int64_t c = 0; last && c < a.ways; ++c) {
          if (a.dy[c]) dn += at(a.dy[c] + row + i, zero);
        }
        put(dx + i, dn);
      });
}

template <class T>
static inline void depth_aggregate_grad(const DepthAggregate<T>& a, int64_t begin, int64_t end) {
  const int64_t C = a.columns, N = a.states_count;
  float* du = a.scratch;
  float* rstds = a.scratch + a.ways * C;
  for (int64_t token = begin; token < end; ++token) {
    depth_sums(a, token, du, rstds);
    depth_sums_grad(a, token, du);
    for (int64_t j = 0; j < N; ++j) {
      const T* x = a.states[j] + token * C;
      const float* scale = a.pre ? a.pre[j] : nullptr;
      float along = 0.0f;
      for (int64_t c = 0; c < a.ways && (a.dweights || scale);) {
        const int count = c + 4 <= a.ways ? 4 : 1;
        float dots[4];
        if (count == 4) {
          depth_dots<4>(du + c * C, x, scale, C, dots);
        } else {
          depth_dots<1>(du + c * C, x, scale, C, dots);
        }
        for (int q = 0; q < count; ++q, ++c) {
          const int64_t at_weight = (token * a.ways + c) * N + j;
          along += a.weights[at_weight] * dots[q];
          if (a.dweights) a.dweights[at_weight] = dots[q] * rstds[j];
        }
      }
      if (!a.dstates[j] && !a.dpre) continue;
      if (a.ways == 4) {
        depth_state_grad<4>(a, token, j, du, rstds[j], along);
      } else if (a.ways == 1) {
        depth_state_grad<1>(a, token, j, du, rstds[j], along);
      } else {
        depth_state_grad<0>(a, token, j, du, rstds[j], along);
      }
    }
  }
}

}  // namespace satformer::rows
