// DenseFormer's depth-weighted average: x = sum_j a_j X_j over the states of a dilation group.
#pragma once

#include "kernels/tensor.h"

#include <vector>

namespace satformer {

// states: N tensors of one shape; weights [N] (any shape with N elements). Differentiable in both.
at::Tensor dense_average(const std::vector<at::Tensor>& states, const at::Tensor& weights);

namespace reference {
at::Tensor dense_average(const std::vector<at::Tensor>& states, const at::Tensor& weights);
}  // namespace reference
namespace cpu {
at::Tensor dense_average(const std::vector<at::Tensor>& states, const at::Tensor& weights);
}  // namespace cpu
namespace gpu {
at::Tensor dense_average(const std::vector<at::Tensor>& states, const at::Tensor& weights);
}  // namespace gpu

}  // namespace satformer
