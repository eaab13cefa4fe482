#include "kernels/value_gate/value_gate.h"

#include <algorithm>

#include "base/error.h"

namespace satformer {

const std::vector<std::string>& gate_names() {
  static const std::vector<std::string> names = {"relu", "sigmoid", "tanh", "identity", "softmax", "softmax_sigmoid"};
  return names;
}

Gate gate_from_name(const std::string& name) {
  const auto& names = gate_names();
  const auto it = std::find(names.begin(), names.end(), name);
  if (it == names.end()) fail(ExitCode::config, "unknown gate '", name, "'.", did_you_mean(name, names));
  return static_cast<Gate>(it - names.begin());
}

at::Tensor gate_activation(const at::Tensor& logits_BTH, Gate gate) {
  return reference::gate_activation(logits_BTH, gate);
}

at::Tensor gated_value_mix(const at::Tensor& v_BTHD, const at::Tensor& v1_BTHD, const at::Tensor& alpha_BTH) {
  return reference::gated_value_mix(v_BTHD, v1_BTHD, alpha_BTH);
}

at::Tensor value_gate(const at::Tensor& v_BTHD, const at::Tensor& v1_BTHD, const at::Tensor& logits_BTH, Gate gate) {
  return reference::value_gate(v_BTHD, v1_BTHD, logits_BTH, gate);
}

at::Tensor static_value_mix(const at::Tensor& v_BTHD, const at::Tensor& v1_BTHD, const at::Tensor& lambda1,
                            const at::Tensor& lambda2) {
  return reference::static_value_mix(v_BTHD, v1_BTHD, lambda1, lambda2);
}

}  // namespace satformer
