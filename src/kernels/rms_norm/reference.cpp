#include "kernels/tensor.h"

#include "kernels/rms_norm/rms_norm.h"

namespace satformer::reference {
namespace {

at::Tensor normalise(const at::Tensor& x_fp32, const at::Tensor& weight, double eps) {
  const at::Tensor y = x_fp32 * (x_fp32.square().mean(-1, true) + eps).rsqrt();
  return weight.defined() ? y * weight.to(at::kFloat) : y;
}

}  // namespace

at::Tensor rms_norm(const at::Tensor& x, const at::Tensor& weight, double eps) {
  return normalise(x.to(at::kFloat), weight, eps).to(x.scalar_type());
}

AddNorm add_rms_norm(const at::Tensor& x, const at::Tensor& residual, const at::Tensor& weight, double eps) {
  const at::Tensor sum = x.to(at::kFloat) + residual.to(at::kFloat);
  return {normalise(sum, weight, eps).to(x.scalar_type()), sum.to(x.scalar_type())};
}

}  // namespace satformer::reference
