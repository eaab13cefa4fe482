#include <ATen/ops/cross_entropy_loss.h>
#include <ATen/ops/linear.h>
#include "kernels/tensor.h"

#include "kernels/linear_cross_entropy/linear_cross_entropy.h"

namespace satformer::reference {

at::Tensor linear_cross_entropy(const at::Tensor& hidden_NC, const at::Tensor& weight_VC, const at::Tensor& targets_N,
                                double scale) {
  const at::Tensor logits_NV = at::linear(hidden_NC, weight_VC).to(at::kFloat);
  return at::cross_entropy_loss(logits_NV, targets_N, {}, at::Reduction::Sum, ignore_index) * scale;
}

}  // namespace satformer::reference
