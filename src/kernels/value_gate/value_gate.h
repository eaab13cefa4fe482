// Mixing of layer 0's values into a later layer's.
//   SATFormer (arXiv 2605.03953): V' = V + g(x W + b) * V1, one gate per token and KV head.
//   ResFormer: V' = lambda1 * V1 + lambda2 * V, learned scalars.
#pragma once

#include "kernels/tensor.h"

#include <string>
#include <vector>

namespace satformer {

enum class Gate { relu, sigmoid, tanh, identity, softmax, softmax_sigmoid };
Gate gate_from_name(const std::string& name);  // Error(config) naming the nearest
const std::vector<std::string>& gate_names();

// logits [B, T, H]. softmax runs over the H KV heads and is scaled by H; softmax_sigmoid = softmax * sigmoid * H.
at::Tensor gate_activation(const at::Tensor& logits_BTH, Gate gate);
// v, v1 [B, T, H, D]; alpha [B, T, H].
at::Tensor gated_value_mix(const at::Tensor& v_BTHD, const at::Tensor& v1_BTHD, const at::Tensor& alpha_BTH);
// Both in one pass. Differentiable in v, v1 and logits.
at::Tensor value_gate(const at::Tensor& v_BTHD, const at::Tensor& v1_BTHD, const at::Tensor& logits_BTH, Gate gate);
// lambda1, lambda2: scalars (rank 0).
at::Tensor static_value_mix(const at::Tensor& v_BTHD, const at::Tensor& v1_BTHD, const at::Tensor& lambda1,
                            const at::Tensor& lambda2);

namespace reference {
at::Tensor gate_activation(const at::Tensor& logits_BTH, Gate gate);
at::Tensor gated_value_mix(const at::Tensor& v_BTHD, const at::Tensor& v1_BTHD, const at::Tensor& alpha_BTH);
at::Tensor value_gate(const at::Tensor& v_BTHD, const at::Tensor& v1_BTHD, const at::Tensor& logits_BTH, Gate gate);
at::Tensor static_value_mix(const at::Tensor& v_BTHD, const at::Tensor& v1_BTHD, const at::Tensor& lambda1,
                            const at::Tensor& lambda2);
}  // namespace reference
namespace cpu {
at::Tensor value_gate(const at::Tensor& v_BTHD, const at::Tensor& v1_BTHD, const at::Tensor& logits_BTH, Gate gate);
at::Tensor static_value_mix(const at::Tensor& v_BTHD, const at::Tensor& v1_BTHD, const at::Tensor& lambda1,
                            const at::Tensor& lambda2);
}  // namespace cpu
namespace gpu {
at::Tensor value_gate(const at::Tensor& v_BTHD, const at::Tensor& v1_BTHD, const at::Tensor& logits_BTH, Gate gate);
at::Tensor static_value_mix(const at::Tensor& v_BTHD, const at::Tensor& v1_BTHD, const at::Tensor& lambda1,
                            const at::Tensor& lambda2);
}  // namespace gpu

}  // namespace satformer
