#include "kernels/rms_norm/rms_norm.h"

#include "base/error.h"
#include "kernels/backend.h"

namespace satformer {
namespace {

void check_weight(const at::Tensor& x, const at::Tensor& weight) {
  if (weight.defined() && weight.numel() != x.size(-1)) {
    fail(ExitCode::internal, "rms_norm: ", weight.numel(), " weights for ", x.size(-1), " columns");
  }
}

}  // namespace

at::Tensor rms_norm(const at::Tensor& x, const at::Tensor& weight, double eps) {
  check_weight(x, weight);
  return fused_cpu_ok(x) ? cpu::rms_norm(x, weight, eps) : reference::rms_norm(x, weight, eps);
}

AddNorm add_rms_norm(const at::Tensor& x, const at::Tensor& residual, const at::Tensor& weight, double eps) {
  check_weight(x, weight);
  const bool alike = x.scalar_type() == residual.scalar_type() && x.sizes() == residual.sizes();
  return fused_cpu_ok(x) && alike ? cpu::add_rms_norm(x, residual, weight, eps)
                                  : reference::add_rms_norm(x, residual, weight, eps);
}

}  // namespace satformer
