#include "kernels/rms_norm/rms_norm.h"

#include "base/error.h"
#include "kernels/backend.h"
#include "kernels/gpu/where.h"

namespace satformer {
namespace {

void check_weight(const at::Tensor& x, const at::Tensor& weight) {
  if (weight.defined() && weight.numel() != x.size(-1)) {
    fail(ExitCode::internal, "rms_norm: ", weight.numel(), " weights for ", x.size(-1), " columns");
  }
}

// The weight's gradient is summed in a block's scratch.
bool fits_gpu(const at::Tensor& x) { return x.dim() > 0 && x.size(-1) <= gpu::max_scratch; }

}  // namespace

at::Tensor rms_norm(const at::Tensor& x, const at::Tensor& weight, double eps) {
  check_weight(x, weight);
  return choose(x, {.gpu = fits_gpu(x)}, cpu::rms_norm, gpu::rms_norm, reference::rms_norm)(x, weight, eps);
}

AddNorm add_rms_norm(const at::Tensor& x, const at::Tensor& residual, const at::Tensor& weight, double eps) {
  check_weight(x, weight);
  const bool alike = x.scalar_type() == residual.scalar_type() && x.sizes() == residual.sizes();
  return choose(x, {.cpu = alike, .gpu = alike && fits_gpu(x)}, cpu::add_rms_norm, gpu::add_rms_norm,
                reference::add_rms_norm)(x, residual, weight, eps);
}

}  // namespace satformer
