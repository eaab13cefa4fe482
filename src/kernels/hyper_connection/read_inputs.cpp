#include "kernels/hyper_connection/read_inputs.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/zeros.h>

namespace satformer {

Projection projection(const TensorList& inputs) {
  const auto fp32 = [&](ReadInput input) { return inputs[input].to(at::kFloat).contiguous(); };
  Projection p;
  p.plain = at::cat({fp32(alpha_proj_).t(), fp32(beta_proj_).view({1, -1})}).contiguous();
  p.folded = p.plain * fp32(norm_weight_);
  p.bias =
      inputs[norm_bias_].defined() ? p.plain.mv(fp32(norm_bias_)) : at::zeros({p.plain.size(0)}, p.plain.options());
  return p;
}

}  // namespace satformer
