// Arguments of the row kernels of hyper-connections. A row is one token with n streams of D.
//
// Reading, per stream k: xhat = norm(H_k) without its affine part, z_j = xhat . proj_j + proj_bias_j for j < n + 2
// (n + 1 columns of alpha, then beta), where proj carries the norm's weight and proj_bias its bias.
#pragma once

#include "kernels/row_math.h"

namespace satformer::rows {

inline constexpr int max_hyper_streams = 8;

template <class T>
struct HyperRead {
  const T* streams;                         // [tokens, n, D]
  const float *proj, *proj_bias;            // [n + 2, D], [n + 2]; null when static
  const float *static_alpha, *static_beta;  // [n, n + 1], [n]
  const float* given_alpha;                 // [tokens, n, n + 1] or null: reads by these, and makes none
  float scale_alpha, scale_beta, eps;
  bool use_tanh, layer_norm;
  int64_t streams_count, columns;
  T* input;      // [tokens, D]
  float* alpha;  // [tokens, n, n + 1]
  float* beta;   // [tokens, n]
  float* stats;  // [tokens, n, n + 4]: z, then rstd and mean of the stream. Of one token if `keep_stats` is false.
  bool keep_stats;
};

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
  const T* passed;  // the gradient of the streams as they go on, [tokens, n, D], or null
  T* dstreams;      // or null
  // Added to; all null or none. dproj may be null alone.
  float* dproj;          // [n + 2, D]
  float* dstatic_alpha;  // [n, n + 1]
  float* dstatic_beta;   // [n]
  float* dscales;        // [2]: of alpha, of beta
  float* dz_sum;         // [n + 2]
};

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

}  // namespace satformer::rows
