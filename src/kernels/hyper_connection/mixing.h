// Row kernels of hyper-connections. The number of streams N is a template argument, so that sums over streams stay in
// registers and every stream is read once.
#pragma once

#include "kernels/hyper_connection/rows.h"
#include "kernels/isa/vectors.h"

namespace satformer::rows {

template <int N, class V, class T>
SATFORMER_INLINE V mix_at(const float* factors, const T* x, int64_t stride, V zero) {
  V sum = zero;
#pragma GCC unroll 8
  for (int k = 0; k < N; ++k) sum += factors[k] * at(x + k * stride, zero);
  return sum;
}

// out[p * out_stride + q] = (x_p - shift_p) . y_q for P rows of x and Q of y, all of length `columns`.
template <int P, int Q, class A, class B>
SATFORMER_INLINE void dots_tile(const A* x, const float* shift, const B* y, int64_t columns, float* out,
                                int64_t out_stride) {
  Floats sum[P][Q] = {};
  int64_t i = 0;
  for (; i + lanes <= columns; i += lanes) {
    Floats xs[P];
#pragma GCC unroll 4
    for (int p = 0; p < P; ++p) xs[p] = floats_at(x + p * columns + i) - (shift ? shift[p] : 0.0f);
#pragma GCC unroll 8
    for (int q = 0; q < Q; ++q) {
      const Floats ys = floats_at(y + q * columns + i);
#pragma GCC unroll 4
      for (int p = 0; p < P; ++p) sum[p][q] += xs[p] * ys;
    }
  }
#pragma GCC unroll 4
  for (int p = 0; p < P; ++p) {
#pragma GCC unroll 8
    for (int q = 0; q < Q; ++q) {
      float total = sum_of(sum[p][q]);
      for (int64_t j = i; j < columns; ++j) {
        total += (load(x[p * columns + j]) - (shift ? shift[p] : 0.0f)) * load(y[q * columns + j]);
      }
      out[p * out_stride + q] = total;
    }
  }
}

// The same for any P and Q, in tiles that fit the registers.
template <int P, int Q, class A, class B>
SATFORMER_INLINE void dots(const A* x, const float* shift, const B* y, int64_t columns, float* out,
                           int64_t out_stride) {
  constexpr int rows = lanes == 16 ? 4 : 2, ways = 6;
  if constexpr (P > rows) {
    dots<rows, Q>(x, shift, y, columns, out, out_stride);
    dots<P - rows, Q>(x + rows * columns, shift ? shift + rows : nullptr, y, columns, out + rows * out_stride,
                      out_stride);
  } else if constexpr (Q > ways) {
    dots<P, ways>(x, shift, y, columns, out, out_stride);
    dots<P, Q - ways>(x, shift, y + ways * columns, columns, out + ways, out_stride);
  } else {
    dots_tile<P, Q>(x, shift, y, columns, out, out_stride);
  }
}

// Of one stream: its mean (0 without), and 1 / its length.
struct StreamNorm {
  float mean, rstd;
};
template <class T>
SATFORMER_INLINE StreamNorm stream_norm(const T* x, bool subtract_mean, float eps, int64_t columns) {
  float mean = 0.0f;
  if (subtract_mean) {
    Floats sum{};
    int64_t i = 0;
    for (; i + lanes <= columns; i += lanes) sum += floats_at(x + i);
    mean = sum_of(sum);
    for (; i < columns; ++i) mean += load(x[i]);
    mean /= static_cast<float>(columns);
  }
  Floats sum[2] = {};
  int64_t i = 0;
  for (; i + 2 * lanes <= columns; i += 2 * lanes) {
    const Floats a = floats_at(x + i) - mean, b = floats_at(x + i + lanes) - mean;
    sum[0] += a * a;
    sum[1] += b * b;
  }
  float squares = sum_of(sum[0] + sum[1]);
  for (; i < columns; ++i) squares += (load(x[i]) - mean) * (load(x[i]) - mean);
  return {mean, rsqrt_fp32(squares / static_cast<float>(columns) + eps)};
}

template <int N, class T>
static inline void hyper_read(const HyperRead<T>& a, int64_t begin, int64_t end) {
  const int64_t D = a.columns;
  for (int64_t token = begin; token < end; ++token) {
    const T* x = a.streams + token * N * D;
    float first[N];
    if (a.proj) {
      float mean[N], rstd[N];
      for (int k = 0; k < N; ++k) {
        const StreamNorm norm = stream_norm(x + k * D, a.layer_norm, a.eps, D);
        mean[k] = norm.mean;
        rstd[k] = norm.rstd;
      }
      float* stats = a.stats + (a.keep_stats ? token * N * (N + 4) : 0);
      dots<N, N + 2>(x, mean, a.proj, D, stats, N + 4);
      for (int k = 0; k < N; ++k) {
        float* z = stats + k * (N + 4);
        for (int j = 0; j < N + 2; ++j) z[j] = z[j] * rstd[k] + a.proj_bias[j];
        z[N + 2] = rstd[k];
        z[N + 3] = mean[k];
        float* alpha = a.alpha + (token * N + k) * (N + 1);
        for (int j = 0; j < N + 1; ++j) {
          alpha[j] = a.scale_alpha * (a.use_tanh ? tanh_fp32(z[j]) : z[j]) + a.static_alpha[k * (N + 1) + j];
        }
        a.beta[token * N + k] = a.scale_beta * (a.use_tanh ? tanh_fp32(z[N + 1]) : z[N + 1]) + a.static_beta[k];
        first[k] = alpha[0];
      }
    } else {
      const float* alpha = a.given_alpha ? a.given_alpha + token * N * (N + 1) : a.static_alpha;
      for (int k = 0; k < N; ++k) first[k] = alpha[k * (N + 1)];
    }
    T* input = a.input + token * D;
    for_columns(
        D, [&](int64_t i, auto zero)
               __attribute__((always_inline)) { put(input + i, mix_at<N>(first, x + i, D, zero)); });
  }
}

// What a token's dynamic weights give back to its streams:
// dH_k = sum_j dz_kj (proj_j - ...) = sum_j factor[k][j] proj_j - along[k] (H_k - mean_k) - shift[k] + first[k]
// dinput.
template <int N>
struct StreamGrad {
  float first[N], mean[N], along[N], shift[N], factor[N][N + 2];
};

// From the gradients of alpha and beta to those of z, and the sums of the parameters that no column belongs to.
template <int N, class T>
SATFORMER_INLINE void weights_grad(const HyperReadGrad<T>& a, int64_t token, const float* dfirst, StreamGrad<N>& g) {
  for (int k = 0; k < N; ++k) {
    const int64_t row = token * N + k;
    const float* z = a.stats + row * (N + 4);
    const float rstd = z[N + 2];
    float along = 0.0f, shift = 0.0f;
    for (int j = 0; j < N + 2; ++j) {
      const bool is_beta = j == N + 1;
      float d = is_beta ? (a.dbeta ? a.dbeta[row] : 0.0f) : (a.dalpha ? a.dalpha[row * (N + 1) + j] : 0.0f);
      if (j == 0) d += dfirst[k];
      const float t = a.use_tanh ? tanh_fp32(z[j]) : z[j];
      const float dz = d * (is_beta ? a.scale_beta : a.scale_alpha) * (a.use_tanh ? 1.0f - t * t : 1.0f);
      along += dz * (z[j] - a.proj_bias[j]);
      if (a.layer_norm) shift += dz * a.proj_mean[j];
      g.factor[k][j] = dz * rstd;
      if (!a.dscales) continue;
      a.dscales[is_beta] += d * t;
      a.dz_sum[j] += dz;
      (is_beta ? a.dstatic_beta[k] : a.dstatic_alpha[k * (N + 1) + j]) += d;
    }
    g.first[k] = a.alpha[row * (N + 1)];
    g.mean[k] = z[N + 3];
    g.along[k] = rstd * rstd * along / static_cast<float>(a.columns);
    g.shift[k] = rstd * shift;
  }
}

template <int N, class T>
static inline void hyper_read_grad(const HyperReadGrad<T>& a, int64_t begin, int64_t end) {
  const int64_t D = a.columns;
  for (int64_t token = begin; token < end; ++token) {
    const T* x = a.streams + token * N * D;
    const T* dinput = a.dinput ? a.dinput + token * D : nullptr;
    const T* passed = a.passed ? a.passed + token * N * D : nullptr;
    T* dx = a.dstreams ? a.dstreams + token * N * D : nullptr;
    float dfirst[N];
    for (int k = 0; k < N; ++k) dfirst[k] = 0.0f;
    if (dinput) dots<1, N>(dinput, nullptr, x, D, dfirst, N);
    if (!a.proj) {
      for (int k = 0; k < N; ++k) {
        const float first = a.alpha[k * (N + 1)];
        if (a.dstatic_alpha) a.dstatic_alpha[k * (N + 1)] += dfirst[k];
        if (!dx) continue;
        for_columns(
            D, [&](int64_t i, auto zero) __attribute__((always_inline)) {
              auto d = zero;
              if (dinput) d += first * at(dinput + i, zero);
              if (passed) d += at(passed + k * D + i, zero);
              put(dx + k * D + i, d);
            });
      }
      continue;
    }
    StreamGrad<N> g;
    weights_grad<N>(a, token, dfirst, g);
    for_columns(
        D, [&](int64_t i, auto zero) __attribute__((always_inline)) {
          decltype(zero) xs[N], d[N];
#pragma GCC unroll 8
          for (int k = 0; k < N; ++k) {
            xs[k] = at(x + k * D + i, zero) - g.mean[k];
            d[k] = -g.along[k] * xs[k] - g.shift[k];
          }
#pragma GCC unroll 10
          for (int j = 0; j < N + 2; ++j) {
            const auto proj = at(a.proj + j * D + i, zero);
            if (a.dproj) {
              auto sum = at(a.dproj + j * D + i, zero);
#pragma GCC unroll 8
              for (int k = 0; k < N; ++k) sum += g.factor[k][j] * xs[k];
              put(a.dproj + j * D + i, sum);
            }
#pragma GCC unroll 8
            for (int k = 0; k < N; ++k) d[k] += g.factor[k][j] * proj;
          }
          if (!dx) return;
          const auto din = dinput ? at(dinput + i, zero) : zero;
#pragma GCC unroll 8
          for (int k = 0; k < N; ++k) {
            d[k] += g.first[k] * din;
            if (passed) d[k] += at(passed + k * D + i, zero);
            put(dx + k * D + i, d[k]);
          }
        });
  }
}

template <int N, class T>
static inline void hyper_write(const HyperWrite<T>& a, int64_t begin, int64_t end) {
  const int64_t D = a.columns;
  for (int64_t token = begin; token < end; ++token) {
    const T* x = a.streams + token * N * D;
    const T* output = a.output + token * D;
    T* out = a.out + token * N * D;
    const float* alpha = a.alpha + (a.is_static ? 0 : token * N * (N + 1));
    const float* beta = a.beta + (a.is_static ? 0 : token * N);
    for_columns(
        D, [&](int64_t i, auto zero) __attribute__((always_inline)) {
          decltype(zero) xs[N];
#pragma GCC unroll 8
          for (int k = 0; k < N; ++k) xs[k] = at(x + k * D + i, zero);
          const auto y = at(output + i, zero);
#pragma GCC unroll 8
          for (int j = 0; j < N; ++j) {
            auto sum = beta[j] * y;
#pragma GCC unroll 8
            for (int k = 0; k < N; ++k) sum += alpha[k * (N + 1) + j + 1] * xs[k];
            put(out + j * D + i, sum);
          }
        });
  }
}

template <int N, class T>
static inline void hyper_write_grad(const HyperWrite<T>& a, int64_t begin, int64_t end) {
  const int64_t D = a.columns;
  for (int64_t token = begin; token < end; ++token) {
    const T* x = a.streams + token * N * D;
    const T* dy = a.dy + token * N * D;
    const float* alpha = a.alpha + (a.is_static ? 0 : token * N * (N + 1));
    const float* beta = a.beta + (a.is_static ? 0 : token * N);
    if (a.dbeta) {
      float d[N];
      dots<1, N>(a.output + token * D, nullptr, dy, D, d, N);
      float* dbeta = a.dbeta + (a.is_static ? 0 : token * N);
      for (int j = 0; j < N; ++j) dbeta[j] = a.is_static ? dbeta[j] + d[j] : d[j];
    }
    if (a.dalpha) {
      float d[N][N];
      dots<N, N>(x, nullptr, dy, D, &d[0][0], N);
      float* dalpha = a.dalpha + (a.is_static ? 0 : token * N * (N + 1));
      for (int k = 0; k < N; ++k) {
        float* row = dalpha + k * (N + 1) + 1;
        for (int j = 0; j < N; ++j) row[j] = a.is_static ? row[j] + d[k][j] : d[k][j];
      }
    }
    T* doutput = a.doutput ? a.doutput + token * D : nullptr;
    T* dx = a.dstreams ? a.dstreams + token * N * D : nullptr;
    for_columns(
        D, [&](int64_t i, auto zero) __attribute__((always_inline)) {
          decltype(zero) d[N];
#pragma GCC unroll 8
          for (int j = 0; j < N; ++j) d[j] = at(dy + j * D + i, zero);
          if (doutput) {
            auto sum = beta[0] * d[0];
#pragma GCC unroll 8
            for (int j = 1; j < N; ++j) sum += beta[j] * d[j];
            put(doutput + i, sum);
          }
          if (!dx) return;
#pragma GCC unroll 8
          for (int k = 0; k < N; ++k) {
            auto sum = alpha[k * (N + 1) + 1] * d[0];
#pragma GCC unroll 8
            for (int j = 1; j < N; ++j) sum += alpha[k * (N + 1) + j + 1] * d[j];
            put(dx + k * D + i, sum);
          }
        });
  }
}

}  // namespace satformer::rows
