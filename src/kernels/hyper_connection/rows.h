// Row kernels of hyper-connections. A row is one token with n streams of D; n is a template argument so that the sums
// over streams unroll inside the vector loops.
//
// Reading, per stream k: xhat = norm(H_k) without its affine part, z_j = xhat . proj_j + proj_bias_j for j < n + 2
// (n + 1 columns of alpha, then beta), where proj carries the norm's weight and proj_bias its bias.
#pragma once

#include "kernels/row_math.h"

namespace satformer::rows {

inline constexpr int max_hyper_streams = 8;

// out[q] = x . y_q for count vectors y_q of length `columns`, one after another.
template <class A, class B>
SATFORMER_HD void dots(const A* x, const B* y, int64_t columns, int count, float* out) {
  int q = 0;
  for (; q + 4 <= count; q += 4) {
    const B* y0 = y + q * columns;
    const B* y1 = y0 + columns;
    const B* y2 = y1 + columns;
    const B* y3 = y2 + columns;
    float s0 = 0.0f, s1 = 0.0f, s2 = 0.0f, s3 = 0.0f;
#pragma omp simd reduction(+ : s0, s1, s2, s3)
    for (int64_t i = 0; i < columns; ++i) {
      const float v = load(x[i]);
      s0 += v * load(y0[i]);
      s1 += v * load(y1[i]);
      s2 += v * load(y2[i]);
      s3 += v * load(y3[i]);
    }
    out[q] = s0;
    out[q + 1] = s1;
    out[q + 2] = s2;
    out[q + 3] = s3;
  }
  for (; q < count; ++q) {
    const B* y0 = y + q * columns;
    float s0 = 0.0f;
#pragma omp simd reduction(+ : s0)
    for (int64_t i = 0; i < columns; ++i) s0 += load(x[i]) * load(y0[i]);
    out[q] = s0;
  }
}

// sum_k coefficient[k] x[k * stride] for k < N.
template <int N, class T>
SATFORMER_HD float combine(const float* coefficient, const T* x, int64_t stride) {
  if constexpr (N == 1) {
    return coefficient[0] * load(x[0]);
  } else {
    return combine<N - 1>(coefficient, x, stride) + coefficient[N - 1] * load(x[(N - 1) * stride]);
  }
}

template <class T>
struct HyperRead {
  const T* streams;                         // [tokens, n, D]
  const float *proj, *proj_bias;            // [n + 2, D], [n + 2]; null when static
  const float *static_alpha, *static_beta;  // [n, n + 1], [n]
  float scale_alpha, scale_beta, eps;
  bool use_tanh, layer_norm;
  int64_t streams_count, columns;
  T* input;      // [tokens, D]
  float* alpha;  // [tokens, n, n + 1]
  float* beta;   // [tokens, n]
  float* stats;  // [tokens, n, n + 4]: z, then rstd and mean of the stream. Of one token if `keep_stats` is false.
  bool keep_stats;
};

template <int N, class T>
SATFORMER_HD void hyper_read(const HyperRead<T>& a, int64_t begin, int64_t end) {
  const int64_t D = a.columns;
  for (int64_t token = begin; token < end; ++token) {
    const T* x = a.streams + token * N * D;
    float first[N];
    for (int k = 0; k < N; ++k) {
      if (!a.proj) {
        first[k] = a.static_alpha[k * (N + 1)];
        continue;
      }
      const T* xk = x + k * D;
      float mean = 0.0f, squares = 0.0f;
      float* z = a.stats + ((a.keep_stats ? token * N : 0) + k) * (N + 4);
      if (a.layer_norm) {
        float sum = 0.0f;
#pragma omp simd reduction(+ : sum)
        for (int64_t i = 0; i < D; ++i) sum += load(xk[i]);
        mean = sum / static_cast<float>(D);
#pragma omp simd reduction(+ : squares)
        for (int64_t i = 0; i < D; ++i) squares += (load(xk[i]) - mean) * (load(xk[i]) - mean);
        for (int j = 0; j < N + 2; ++j) {
          const float* p = a.proj + j * D;
          float dot = 0.0f;
#pragma omp simd reduction(+ : dot)
          for (int64_t i = 0; i < D; ++i) dot += (load(xk[i]) - mean) * p[i];
          z[j] = dot;
        }
      } else {
        dots(xk, xk, D, 1, &squares);
        dots(xk, a.proj, D, N + 2, z);
      }
      const float rstd = rsqrt_fp32(squares / static_cast<float>(D) + a.eps);
      for (int j = 0; j < N + 2; ++j) z[j] = z[j] * rstd + a.proj_bias[j];
      z[N + 2] = rstd;
      z[N + 3] = mean;
      float* alpha = a.alpha + (token * N + k) * (N + 1);
      for (int j = 0; j < N + 1; ++j) {
        alpha[j] = a.scale_alpha * (a.use_tanh ? tanh_fp32(z[j]) : z[j]) + a.static_alpha[k * (N + 1) + j];
      }
      a.beta[token * N + k] = a.scale_beta * (a.use_tanh ? tanh_fp32(z[N + 1]) : z[N + 1]) + a.static_beta[k];
      first[k] = alpha[0];
    }
    T* input = a.input + token * D;
#pragma omp simd
    for (int64_t i = 0; i < D; ++i) store(input + i, combine<N>(first, x + i, D));
  }
}

template <class T>
struct HyperReadGrad {
  const T* streams;
  const float* proj;                   // null when static
  const float *proj_bias, *proj_mean;  // [n + 2]; proj_mean only for layer_norm
  const float* alpha;                  // [tokens, n, n + 1], or [n, n + 1] when static
  const float* stats;                  // [tokens, n, n + 4]
  float scale_alpha, scale_beta;
  bool use_tanh, layer_norm;
  int64_t streams_count, columns;
  const T* dinput;  // each of the three may be null
  const float *dalpha, *dbeta;
  T* dstreams;  // or null
  // Added to; all null or none. dproj may be null alone.
  float* dproj;          // [n + 2, D]
  float* dstatic_alpha;  // [n, n + 1]
  float* dstatic_beta;   // [n]
  float* dscales;        // [2]: of alpha, of beta
  float* dz_sum;         // [n + 2]
};

template <int N, class T>
SATFORMER_HD void hyper_read_grad(const HyperReadGrad<T>& a, int64_t begin, int64_t end) {
  const int64_t D = a.columns;
  for (int64_t token = begin; token < end; ++token) {
    const T* x = a.streams + token * N * D;
    const T* dinput = a.dinput ? a.dinput + token * D : nullptr;
    float dfirst[N];
    for (int k = 0; k < N; ++k) dfirst[k] = 0.0f;
    if (dinput) dots(dinput, x, D, N, dfirst);
    for (int k = 0; k < N; ++k) {
      const int64_t row = token * N + k;
      const float first = a.proj ? a.alpha[row * (N + 1)] : a.alpha[k * (N + 1)];
      T* dx = a.dstreams ? a.dstreams + row * D : nullptr;
      if (!a.proj) {
        if (a.dstatic_alpha) a.dstatic_alpha[k * (N + 1)] += dfirst[k];
        if (!dx) continue;
#pragma omp simd
        for (int64_t i = 0; i < D; ++i) store(dx + i, first * load(dinput[i]));
        continue;
      }
      const T* xk = x + k * D;
      const float* z = a.stats + row * (N + 4);
      const float rstd = z[N + 2], mean = z[N + 3];
      float dz[N + 2], along = 0.0f, shift = 0.0f;
      for (int j = 0; j < N + 2; ++j) {
        const bool is_beta = j == N + 1;
        float d = is_beta ? (a.dbeta ? a.dbeta[row] : 0.0f) : (a.dalpha ? a.dalpha[row * (N + 1) + j] : 0.0f);
        if (j == 0) d += dfirst[k];
        const float t = a.use_tanh ? tanh_fp32(z[j]) : z[j];
        const float scale = is_beta ? a.scale_beta : a.scale_alpha;
        dz[j] = d * scale * (a.use_tanh ? 1.0f - t * t : 1.0f);
        along += dz[j] * (z[j] - a.proj_bias[j]);
        if (a.layer_norm) shift += dz[j] * a.proj_mean[j];
        if (!a.dscales) continue;
        a.dscales[is_beta] += d * t;
        a.dz_sum[j] += dz[j];
        (is_beta ? a.dstatic_beta[k] : a.dstatic_alpha[k * (N + 1) + j]) += d;
      }
      along /= static_cast<float>(D);
      if (a.dproj) {
        for (int j = 0; j < N + 2; ++j) {
          float* dproj = a.dproj + j * D;
          const float factor = dz[j] * rstd;
#pragma omp simd
          for (int64_t i = 0; i < D; ++i) dproj[i] += factor * (load(xk[i]) - mean);
        }
      }
      if (!dx) continue;
      const float k1 = rstd * rstd * along, k0 = -rstd * shift;
      for (int j = 0; j < N + 2; ++j) dz[j] *= rstd;
      const float* proj = a.proj;
      if (dinput) {
#pragma omp simd
        for (int64_t i = 0; i < D; ++i) {
          const float d = combine<N + 2>(dz, proj + i, D);
          store(dx + i, d - k1 * (load(xk[i]) - mean) + k0 + first * load(dinput[i]));
        }
      } else {
#pragma omp simd
        for (int64_t i = 0; i < D; ++i) {
          const float d = combine<N + 2>(dz, proj + i, D);
          store(dx + i, d - k1 * (load(xk[i]) - mean) + k0);
        }
      }
    }
  }
}

template <class T>
struct HyperWrite {
  const T* streams;           // [tokens, n, D]
  const T* output;            // [tokens, D]
  const float *alpha, *beta;  // [tokens, n, n + 1], [tokens, n]; without the token axis when `is_static`
  T* out;                     // forward: [tokens, n, D]
  const T* dy;                // backward: [tokens, n, D]
  T *dstreams, *doutput;      // backward, each may be null
  float *dalpha, *dbeta;      // backward, each may be null; added to when `is_static`. dalpha[.,0] is left.
  bool is_static;
  int64_t streams_count, columns;
};

template <int N, class T>
SATFORMER_HD void hyper_write(const HyperWrite<T>& a, int64_t begin, int64_t end) {
  const int64_t D = a.columns;
  for (int64_t token = begin; token < end; ++token) {
    const T* x = a.streams + token * N * D;
    const T* output = a.output + token * D;
    const float* alpha = a.alpha + (a.is_static ? 0 : token * N * (N + 1));
    const float* beta = a.beta + (a.is_static ? 0 : token * N);
    for (int j = 0; j < N; ++j) {
      float mix[N];
      for (int k = 0; k < N; ++k) mix[k] = alpha[k * (N + 1) + j + 1];
      const float b = beta[j];
      T* out = a.out + (token * N + j) * D;
#pragma omp simd
      for (int64_t i = 0; i < D; ++i) store(out + i, b * load(output[i]) + combine<N>(mix, x + i, D));
    }
  }
}

template <int N, class T>
SATFORMER_HD void hyper_write_grad(const HyperWrite<T>& a, int64_t begin, int64_t end) {
  const int64_t D = a.columns;
  for (int64_t token = begin; token < end; ++token) {
    const T* x = a.streams + token * N * D;
    const T* dy = a.dy + token * N * D;
    const float* alpha = a.alpha + (a.is_static ? 0 : token * N * (N + 1));
    const float* beta = a.beta + (a.is_static ? 0 : token * N);
    if (a.doutput) {
      float b[N];
      for (int j = 0; j < N; ++j) b[j] = beta[j];
      T* doutput = a.doutput + token * D;
#pragma omp simd
      for (int64_t i = 0; i < D; ++i) store(doutput + i, combine<N>(b, dy + i, D));
    }
    if (a.dbeta) {
      float d[N];
      dots(a.output + token * D, dy, D, N, d);
      float* dbeta = a.dbeta + (a.is_static ? 0 : token * N);
      for (int j = 0; j < N; ++j) dbeta[j] = a.is_static ? dbeta[j] + d[j] : d[j];
    }
    for (int k = 0; k < N; ++k) {
      if (a.dalpha) {
        float d[N];
        dots(x + k * D, dy, D, N, d);
        float* dalpha = a.dalpha + ((a.is_static ? 0 : token * N) + k) * (N + 1) + 1;
        for (int j = 0; j < N; ++j) dalpha[j] = a.is_static ? dalpha[j] + d[j] : d[j];
      }
      if (a.dstreams) {
        float mix[N];
        for (int j = 0; j < N; ++j) mix[j] = alpha[k * (N + 1) + j + 1];
        T* dx = a.dstreams + (token * N + k) * D;
#pragma omp simd
        for (int64_t i = 0; i < D; ++i) store(dx + i, combine<N>(mix, dy + i, D));
      }
    }
  }
}

}  // namespace satformer::rows
