// Gated feed-forward: down(silu(gate(x)) * up(x)), the product in fp32.
#pragma once

#include "kernels/tensor.h"

namespace satformer {

// gate, up [..., F].
at::Tensor swiglu(const at::Tensor& gate, const at::Tensor& up);
// x [..., C]; w_gate, w_up [F, C]; w_down [C, F]. The fused path recomputes the product in backward.
at::Tensor gated_mlp(const at::Tensor& x, const at::Tensor& w_gate, const at::Tensor& w_up, const at::Tensor& w_down);

namespace reference {
at::Tensor swiglu(const at::Tensor& gate, const at::Tensor& up);
at::Tensor gated_mlp(const at::Tensor& x, const at::Tensor& w_gate, const at::Tensor& w_up, const at::Tensor& w_down);
}  // namespace reference
namespace cpu {
at::Tensor swiglu(const at::Tensor& gate, const at::Tensor& up);
at::Tensor gated_mlp(const at::Tensor& x, const at::Tensor& w_gate, const at::Tensor& w_up, const at::Tensor& w_down);
}  // namespace cpu
namespace gpu {
at::Tensor swiglu(const at::Tensor& gate, const at::Tensor& up);
at::Tensor gated_mlp(const at::Tensor& x, const at::Tensor& w_gate, const at::Tensor& w_up, const at::Tensor& w_down);
}  // namespace gpu

}  // namespace satformer
