// AdamW with decoupled weight decay (Loshchilov and Hutter), bias-corrected, fp32 state.
//   p *= 1 - lr*wd;  m = b1 m + (1-b1) g;  v = b2 v + (1-b2) g^2;  p -= lr * (m/(1-b1^t)) / (sqrt(v/(1-b2^t)) + eps)
#pragma once

#include "kernels/tensor.h"

#include <vector>

namespace satformer {

struct AdamWOptions {
  double learning_rate = 1e-3;
  double beta1 = 0.9, beta2 = 0.95, eps = 1e-8;
  double weight_decay = 0.0;
  double grad_scale = 1.0;  // multiplies every gradient (clipping, averaging)
  std::int64_t step = 1;    // t, counted from 1
};

// Tensors of one group, in step: parameter (fp32), gradient (fp32 or bf16), first and second moment (fp32).
struct AdamWTensors {
  std::vector<at::Tensor> params, grads, m, v;
};

// Updates params, m and v in place; gradients are left as they are.
void adamw_step(AdamWTensors& tensors, const AdamWOptions& options);
// sqrt of the sum of squares of all elements, accumulated in fp64 on the CPU; NaN or Inf anywhere shows in the
// result.
double global_norm(const std::vector<at::Tensor>& tensors);

namespace reference {
void adamw_step(AdamWTensors& tensors, const AdamWOptions& options);
double global_norm(const std::vector<at::Tensor>& tensors);
}  // namespace reference
namespace cpu {
void adamw_step(AdamWTensors& tensors, const AdamWOptions& options);
double global_norm(const std::vector<at::Tensor>& tensors);
}  // namespace cpu
namespace gpu {
void adamw_step(AdamWTensors& tensors, const AdamWOptions& options);
double global_norm(const std::vector<at::Tensor>& tensors);
}  // namespace gpu

}  // namespace satformer
