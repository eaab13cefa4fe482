#include "kernels/rms_norm/rms_norm.h"

namespace satformer {

at::Tensor rms_norm(const at::Tensor& x, const at::Tensor& weight, double eps) {
  return reference::rms_norm(x, weight, eps);
}

AddNorm add_rms_norm(const at::Tensor& x, const at::Tensor& residual, const at::Tensor& weight, double eps) {
  return reference::add_rms_norm(x, residual, weight, eps);
}

}  // namespace satformer
