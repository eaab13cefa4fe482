#include <ATen/ops/layer_norm.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/tanh.h>
#include "kernels/tensor.h"

#include <limits>

#include "kernels/hyper_connection/hyper_connection.h"
#include "kernels/rms_norm/rms_norm.h"

namespace satformer::reference {

HyperRead hyper_read(const at::Tensor& streams_BTnD, const HyperConnectionParams& params) {
  HyperRead read;
  if (params.dynamic_alpha_proj.defined()) {
    const at::Tensor normed =
        params.norm_bias.defined()
            ? at::layer_norm(streams_BTnD, {streams_BTnD.size(-1)}, params.norm_weight, params.norm_bias, 1e-5)
            : rms_norm(streams_BTnD, params.norm_weight, std::numeric_limits<float>::epsilon());
    at::Tensor alpha = at::matmul(normed, params.dynamic_alpha_proj);
    at::Tensor beta = at::matmul(normed, params.dynamic_beta_proj);
    if (params.use_tanh) {
      alpha = at::tanh(alpha);
      beta = at::tanh(beta);
    }
    read.alpha = alpha * params.dynamic_alpha_scale + params.static_alpha;
    read.beta = beta * params.dynamic_beta_scale + params.static_beta;
  } else {
    read.alpha = params.static_alpha;
    read.beta = params.static_beta;
  }
  read.input_BTD = (read.alpha.select(-1, 0).unsqueeze(-1) * streams_BTnD).sum(-2).to(streams_BTnD.scalar_type());
  return read;
}

at::Tensor hyper_write(const at::Tensor& streams_BTnD, const HyperRead& read, const at::Tensor& output_BTD) {
  const std::int64_t n = streams_BTnD.size(2);
  const at::Tensor mix = read.alpha.narrow(-1, 1, n).transpose(-1, -2).to(at::kFloat);  // row j: stream j's sources
  const at::Tensor written = read.beta.to(at::kFloat).unsqueeze(-1) * output_BTD.unsqueeze(2).to(at::kFloat);
  return (written + at::matmul(mix, streams_BTnD.to(at::kFloat))).to(streams_BTnD.scalar_type());
}

}  // namespace satformer::reference
