#include <ATen/ops/relu.h>
#include <ATen/ops/sigmoid.h>
#include <ATen/ops/softmax.h>
#include <ATen/ops/tanh.h>
#include "kernels/tensor.h"

#include "base/error.h"
#include "kernels/value_gate/value_gate.h"

namespace satformer::reference {

at::Tensor gate_activation(const at::Tensor& logits_BTH, Gate gate) {
  const auto heads = static_cast<double>(logits_BTH.size(-1));
  switch (gate) {
    case Gate::relu:
      return at::relu(logits_BTH);
    case Gate::sigmoid:
      return at::sigmoid(logits_BTH);
    case Gate::tanh:
      return at::tanh(logits_BTH);
    case Gate::identity:
      return logits_BTH;
    case Gate::softmax:
      return at::softmax(logits_BTH, -1) * heads;
    case Gate::softmax_sigmoid:
      return at::softmax(logits_BTH, -1) * at::sigmoid(logits_BTH) * heads;
  }
  fail(ExitCode::internal, "unknown gate");
}

at::Tensor gated_value_mix(const at::Tensor& v_BTHD, const at::Tensor& v1_BTHD, const at::Tensor& alpha_BTH) {
  return v_BTHD + alpha_BTH.to(v_BTHD.scalar_type()).unsqueeze(-1) * v1_BTHD;
}

at::Tensor value_gate(const at::Tensor& v_BTHD, const at::Tensor& v1_BTHD, const at::Tensor& logits_BTH, Gate gate) {
  return reference::gated_value_mix(v_BTHD, v1_BTHD, reference::gate_activation(logits_BTH, gate));
}

at::Tensor static_value_mix(const at::Tensor& v_BTHD, const at::Tensor& v1_BTHD, const at::Tensor& lambda1,
                            const at::Tensor& lambda2) {
  return (lambda1 * v1_BTHD + lambda2 * v_BTHD).to(v_BTHD.scalar_type());
}

}  // namespace satformer::reference
