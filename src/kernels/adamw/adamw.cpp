#include "kernels/adamw/adamw.h"

#include <cmath>

namespace satformer {

void adamw_step(AdamWTensors& tensors, const AdamWOptions& options) { reference::adamw_step(tensors, options); }

double global_norm(const std::vector<at::Tensor>& tensors) {
  double sum = 0;
  for (const at::Tensor& t : tensors) {
    if (t.defined()) sum += t.to(at::kFloat).square().sum(at::kDouble).item<double>();
  }
  return std::sqrt(sum);
}

}  // namespace satformer
