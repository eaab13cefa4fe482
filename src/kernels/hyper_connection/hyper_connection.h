// Hyper-Connections (arXiv 2409.19606): n parallel streams H [B, T, n, D] around a sublayer F.
//   A = s_a * tanh(norm(H) W_a) + static_a  [n, n+1],   beta = s_b * tanh(norm(H) w_b) + static_b  [n]
//   input = sum_k A[k,0] H_k;   H'_j = beta_j * F + sum_k A[k,j+1] H_k
#pragma once

#include "kernels/tensor.h"

namespace satformer {

struct HyperConnectionParams {
  at::Tensor static_beta;   // [n]
  at::Tensor static_alpha;  // [n, n+1]
  // Undefined for static hyper-connections.
  at::Tensor dynamic_beta_proj;                        // [D]
  at::Tensor dynamic_alpha_proj;                       // [D, n+1]
  at::Tensor dynamic_beta_scale, dynamic_alpha_scale;  // [1]
  at::Tensor norm_weight;                              // [D]
  at::Tensor norm_bias;  // [D]: LayerNorm (eps 1e-5); undefined: RMS norm (eps of fp32, 1.19e-7)
  bool use_tanh = true;
};

struct HyperRead {
  at::Tensor input_BTD;  // what the sublayer reads
  at::Tensor alpha;      // [B, T, n, n+1]; [n, n+1] when static
  at::Tensor beta;       // [B, T, n]; [n] when static
  // What was read, to be written to: the gradients of both ways are then added where they are made.
  at::Tensor streams_BTnD = {};
};
HyperRead hyper_read(const at::Tensor& streams_BTnD, const HyperConnectionParams& params);
// Streams after the sublayer gave `output_BTD`.
at::Tensor hyper_write(const at::Tensor& streams_BTnD, const HyperRead& read, const at::Tensor& output_BTD);

namespace reference {
HyperRead hyper_read(const at::Tensor& streams_BTnD, const HyperConnectionParams& params);
at::Tensor hyper_write(const at::Tensor& streams_BTnD, const HyperRead& read, const at::Tensor& output_BTD);
}  // namespace reference
namespace cpu {
HyperRead hyper_read(const at::Tensor& streams_BTnD, const HyperConnectionParams& params);
at::Tensor hyper_write(const at::Tensor& streams_BTnD, const HyperRead& read, const at::Tensor& output_BTD);
}  // namespace cpu
namespace gpu {
bool hyper_connection_fits(std::int64_t streams, std::int64_t columns);
satformer::HyperRead hyper_read(const at::Tensor& streams_BTnD, const HyperConnectionParams& params);
at::Tensor hyper_write(const at::Tensor& streams_BTnD, const satformer::HyperRead& read,
                       const at::Tensor& output_BTD);
}  // namespace gpu

}  // namespace satformer
