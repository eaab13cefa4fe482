// Hyper-connections on a GPU (cuda_read.cu, cuda_write.cu), for 1, 2 and 4 streams. A block takes a token at a time,
// whose streams stay in the first-level cache between two readings. Elements of traffic per token with n streams of
// D: read n D + D, its gradient 2 n D + D; write 2 n D + D, its gradient 3 n D + 2 D. Rows of D are packs of four.
#pragma once

#include "kernels/gpu/where.h"
#include "kernels/hyper_connection/sums.h"
#include "kernels/row_math.h"

namespace satformer::gpu {

inline bool hyper_streams_fit(int64_t n) { return n == 1 || n == 2 || n == 4; }

// As in rows.h: per stream xhat = norm(H_k) without its affine part, z_j = xhat . proj_j + proj_bias_j for j < n + 2.
template <class T>
struct HyperRead {
  const T* streams;                         // [tokens, n, D]
  const float *proj, *proj_bias;            // [n + 2, D], [n + 2]; null when static
  const float *static_alpha, *static_beta;  // [n, n + 1], [n]
  const float *scale_alpha, *scale_beta;    // one value each
  float eps;
  bool use_tanh, layer_norm;
  int64_t tokens;
  int streams_count, columns;
  T* input;      // [tokens, D]
  float* alpha;  // [tokens, n, n + 1]
  float* beta;   // [tokens, n]
  float* stats;  // [tokens, n, n + 4]: z, then rstd and mean of the stream
};

template <class T>
struct HyperReadGrad {
  const T* streams;
  const float *proj, *proj_bias, *proj_mean;  // proj null when static; proj_mean [n + 2] only for layer_norm
  const float* alpha;                         // [tokens, n, n + 1], or [n, n + 1] when static
  const float* stats;                         // [tokens, n, n + 4]
  const float *scale_alpha, *scale_beta;
  bool use_tanh, layer_norm;
  int64_t tokens;
  int streams_count, columns;
  const T* dinput;  // each of the three may be null
  const float *dalpha, *dbeta;
  T* dstreams;   // or null
  float* dsums;  // [partial_blocks, HyperSums width], set ([partial_blocks, n (n + 1)] when static); or null
};

template <class T>
struct HyperWrite {
  const T* streams;           // [tokens, n, D]
  const T* output;            // [tokens, D]
  const float *alpha, *beta;  // [tokens, n, n + 1], [tokens, n]; without the token axis when `is_static`
  T* out;                     // forward: [tokens, n, D]
  const T* dy;                // backward: [tokens, n, D]
  T *dstreams, *doutput;      // backward, each may be null
  // Backward: as alpha and beta, column 0 of dalpha set to zero; when `is_static` [partial_blocks, ...]. Null alone
  // or both.
  float *dalpha, *dbeta;
  bool is_static;
  int64_t tokens;
  int streams_count, columns;
};

template <class T>
void hyper_read(const Where& where, const HyperRead<T>& args);
template <class T>
void hyper_read_grad(const Where& where, const HyperReadGrad<T>& args);
template <class T>
void hyper_write(const Where& where, const HyperWrite<T>& args);
template <class T>
void hyper_write_grad(const Where& where, const HyperWrite<T>& args);

}  // namespace satformer::gpu
