// Root-mean-square normalisation over the last axis: y = x / sqrt(mean(x^2) + eps) * w, computed in fp32 and cast
// back.
#pragma once

#include "kernels/tensor.h"

#include <utility>

namespace satformer {

// x [..., C]; weight [C] or undefined (no scale). Differentiable in both.
at::Tensor rms_norm(const at::Tensor& x, const at::Tensor& weight, double eps);

struct AddNorm {
  at::Tensor normed;  // rms_norm of the unrounded fp32 sum
  at::Tensor sum;     // x + residual, in x's dtype
};
// x, residual [..., C].
AddNorm add_rms_norm(const at::Tensor& x, const at::Tensor& residual, const at::Tensor& weight, double eps);

namespace reference {
at::Tensor rms_norm(const at::Tensor& x, const at::Tensor& weight, double eps);
AddNorm add_rms_norm(const at::Tensor& x, const at::Tensor& residual, const at::Tensor& weight, double eps);
}  // namespace reference
namespace cpu {
at::Tensor rms_norm(const at::Tensor& x, const at::Tensor& weight, double eps);
AddNorm add_rms_norm(const at::Tensor& x, const at::Tensor& residual, const at::Tensor& weight, double eps);
}  // namespace cpu
namespace gpu {
at::Tensor rms_norm(const at::Tensor& x, const at::Tensor& weight, double eps);
AddNorm add_rms_norm(const at::Tensor& x, const at::Tensor& residual, const at::Tensor& weight, double eps);
}  // namespace gpu

}  // namespace satformer
