// What the implementations of reading and writing share.
#pragma once

#include "kernels/autograd.h"

namespace satformer {

// DifferentiableOp::remakes of a write whose streams so many operations make again: it is made again from them, but
// after two such writes one is kept.
inline int remakes_of_write(int of_streams) { return of_streams < 2 ? of_streams + 1 : 0; }

// Inputs of a dynamic read.
enum ReadInput : std::size_t {
  streams_,
  static_alpha_,
  static_beta_,
  alpha_proj_,
  beta_proj_,
  alpha_scale_,
  beta_scale_,
  norm_weight_,
  norm_bias_,
  read_inputs_
};

// The projections with the norm's affine part folded in, row j the weights of z_j; all fp32.
struct Projection {
  at::Tensor plain;   // [n + 2, D]: columns of alpha_proj, then beta_proj
  at::Tensor folded;  // plain * norm weight
  at::Tensor bias;    // [n + 2]: plain . norm bias, or zeros
};

Projection projection(const TensorList& inputs);

// The gradients of the parameters that `needs` names, from `sums` (laid out by hyper_sums()). `saved` begins with the
// inputs.
void give_parameter_grads(const at::Tensor& sums, const Projection& proj, const TensorList& saved,
                          const std::vector<bool>& needs, TensorList& result);

}  // namespace satformer
