// Cross-entropy of a linear head without ever holding all logits.
//   loss = scale * sum over n with target != -100 of ( logsumexp(h_n W^T) - (h_n W^T)[target_n] )
#pragma once

#include "kernels/tensor.h"

namespace satformer {

inline constexpr std::int64_t ignore_index = -100;

// hidden [N, C]; weight [V, C]; targets [N] int64 in [0, V) or -100. Returns a fp32 scalar. Differentiable in hidden
// and weight, once: the fused path works in row chunks, makes the gradients during forward and hands them on in
// backward. Error(data) for a target out of range.
at::Tensor linear_cross_entropy(const at::Tensor& hidden_NC, const at::Tensor& weight_VC, const at::Tensor& targets_N,
                                double scale);
// Loss of each row (0 where ignored), fp32 [N], without gradient. `greedy` (optional, [N] bool): whether the target
// has the largest logit; of equal ones that of the smallest id.
at::Tensor token_losses(const at::Tensor& hidden_NC, const at::Tensor& weight_VC, const at::Tensor& targets_N,
                        at::Tensor* greedy = nullptr);

namespace reference {
at::Tensor linear_cross_entropy(const at::Tensor& hidden_NC, const at::Tensor& weight_VC, const at::Tensor& targets_N,
                                double scale);
}  // namespace reference
namespace cpu {
at::Tensor linear_cross_entropy(const at::Tensor& hidden_NC, const at::Tensor& weight_VC, const at::Tensor& targets_N,
                                double scale);
}  // namespace cpu
namespace gpu {
at::Tensor linear_cross_entropy(const at::Tensor& hidden_NC, const at::Tensor& weight_VC, const at::Tensor& targets_N,
                                double scale);
}  // namespace gpu

}  // namespace satformer
