#include "kernels/hyper_connection/read_inputs.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/zeros.h>

#include "kernels/hyper_connection/sums.h"
#include "kernels/op_tensors.h"

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

void give_parameter_grads(const at::Tensor& sums, const Projection& proj, const TensorList& saved,
                          const std::vector<bool>& needs, TensorList& result) {
  const std::int64_t n = saved[streams_].size(2), D = saved[streams_].size(3);
  const HyperSums layout = hyper_sums(static_cast<int>(n), static_cast<int>(D));
  const bool layer = saved[norm_bias_].defined();
  const at::Tensor dz_sum = sums.narrow(0, layout.at_dz, n + 2),
                   dfolded = sums.narrow(0, layout.at_proj, (n + 2) * D).view({n + 2, D});
  // folded = plain * weight, bias = plain . norm bias
  at::Tensor dplain = dfolded * dense_fp32(saved[norm_weight_]);
  if (layer) dplain = dplain + dz_sum.unsqueeze(1) * dense_fp32(saved[norm_bias_]);
  const auto give = [&](ReadInput i, const at::Tensor& grad) {
    if (needs[i]) result[i] = grad.to(saved[i].scalar_type()).reshape(saved[i].sizes());
  };
  give(static_alpha_, sums.narrow(0, 0, layout.at_static_beta));
  give(static_beta_, sums.narrow(0, layout.at_static_beta, n));
  give(alpha_scale_, sums.select(0, layout.at_scales));
  give(beta_scale_, sums.select(0, layout.at_scales + 1));
  give(alpha_proj_, dplain.narrow(0, 0, n + 1).t());
  give(beta_proj_, dplain.select(0, n + 1));
  give(norm_weight_, (dfolded * proj.plain).sum(0));
  if (layer) give(norm_bias_, proj.plain.t().mv(dz_sum));
}

}  // namespace satformer
