#include <ATen/core/grad_mode.h>
#include "kernels/tensor.h"

#include <cmath>

#include "kernels/adamw/adamw.h"

namespace satformer::reference {

void adamw_step(AdamWTensors& tensors, const AdamWOptions& o) {
  at::NoGradGuard no_grad;
  const double correction1 = 1.0 - std::pow(o.beta1, static_cast<double>(o.step));
  const double correction2 = 1.0 - std::pow(o.beta2, static_cast<double>(o.step));
  for (std::size_t i = 0; i < tensors.params.size(); ++i) {
    at::Tensor& p = tensors.params[i];
    const at::Tensor g = tensors.grads[i].to(at::kFloat) * o.grad_scale;
    p.mul_(1.0 - o.learning_rate * o.weight_decay);
    tensors.m[i].mul_(o.beta1).add_(g, 1.0 - o.beta1);
    tensors.v[i].mul_(o.beta2).addcmul_(g, g, 1.0 - o.beta2);
    const at::Tensor denominator = (tensors.v[i] / correction2).sqrt_().add_(o.eps);
    p.addcdiv_(tensors.m[i], denominator, -o.learning_rate / correction1);
  }
}

double global_norm(const std::vector<at::Tensor>& tensors) {
  double sum = 0;
  for (const at::Tensor& t : tensors) {
    if (t.defined()) sum += t.to(at::kFloat).square().sum(at::kDouble).item<double>();
  }
  return std::sqrt(sum);
}

}  // namespace satformer::reference
