#include "kernels/value_gate/value_gate.h"

#include <algorithm>

#include "base/error.h"
#include "kernels/backend.h"
#include "kernels/linear/linear.h"

namespace satformer {
namespace {

void check_shapes(const at::Tensor& v_BTHD, const at::Tensor& v1_BTHD, const at::Tensor& gate_BTH) {
  if (v_BTHD.dim() != 4 || v1_BTHD.sizes() != v_BTHD.sizes() || gate_BTH.sizes() != v_BTHD.sizes().slice(0, 3)) {
    fail(ExitCode::internal, "value_gate: values ", v_BTHD.sizes(), " and ", v1_BTHD.sizes(), ", gate ",
         gate_BTH.sizes());
  }
}

bool alike(const at::Tensor& v_BTHD, const at::Tensor& v1_BTHD) {
  return v_BTHD.scalar_type() == v1_BTHD.scalar_type() && v_BTHD.sizes() == v1_BTHD.sizes();
}

}  // namespace

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
  return row_by_row(logits_BTH, [gate](const at::Tensor& x) { return reference::gate_activation(x, gate); });
}

at::Tensor gated_value_mix(const at::Tensor& v_BTHD, const at::Tensor& v1_BTHD, const at::Tensor& alpha_BTH) {
  check_shapes(v_BTHD, v1_BTHD, alpha_BTH);
  return value_gate(v_BTHD, v1_BTHD, alpha_BTH, Gate::identity);
}

at::Tensor value_gate(const at::Tensor& v_BTHD, const at::Tensor& v1_BTHD, const at::Tensor& logits_BTH, Gate gate) {
  check_shapes(v_BTHD, v1_BTHD, logits_BTH);
  const bool fits = alike(v_BTHD, v1_BTHD);
  return choose(v_BTHD, {fits, fits}, cpu::value_gate, gpu::value_gate, reference::value_gate)(v_BTHD, v1_BTHD,
                                                                                               logits_BTH, gate);
}

at::Tensor static_value_mix(const at::Tensor& v_BTHD, const at::Tensor& v1_BTHD, const at::Tensor& lambda1,
                            const at::Tensor& lambda2) {
  const bool fits = alike(v_BTHD, v1_BTHD) && lambda1.numel() == 1 && lambda2.numel() == 1;
  return choose(v_BTHD, {fits, fits}, cpu::static_value_mix, gpu::static_value_mix, reference::static_value_mix)(
      v_BTHD, v1_BTHD, lambda1, lambda2);
}

}  // namespace satformer
