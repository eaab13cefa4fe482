#include "probe/gate_means.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>

#include "base/error.h"

namespace satformer {

at::Tensor GateMeans::source_gate(std::int64_t layer, std::int64_t source, const at::Tensor& alpha_BTH) {
  at::NoGradGuard no_grad;
  const at::Tensor gates = alpha_BTH.detach().to(at::kCPU, at::kDouble);
  const std::int64_t rows = kinds_ > 0 ? kinds_ : 1;
  Sums& s = sums_[{layer, source}];
  if (!s.sum_KH.defined()) {
    s.sum_KH = at::zeros({rows, gates.size(-1)}, at::kDouble);
    s.count_K = at::zeros({rows}, at::kDouble);
  }
  for (std::int64_t kind = 0; kind < rows; ++kind) {
    if (kinds_ == 0) {
      s.sum_KH[0] += gates.sum(at::IntArrayRef({0, 1}));
      s.count_K[0] += static_cast<double>(gates.size(0) * gates.size(1));
      continue;
    }
    const at::Tensor of_kind = kinds_BT_.eq(kind).to(at::kDouble);
    s.sum_KH[kind] += (gates * of_kind.unsqueeze(-1)).sum(at::IntArrayRef({0, 1}));
    s.count_K[kind] += of_kind.sum();
  }
  return alpha_BTH;
}

const GateMeans::Sums& GateMeans::sums(std::int64_t layer, std::int64_t source) const {
  const auto found = sums_.find({layer, source});
  if (found == sums_.end()) {
    fail(ExitCode::internal, "no mean of layer ", layer, "'s gates on layer ", source, " was measured");
  }
  return found->second;
}

at::Tensor GateMeans::of_heads(std::int64_t layer, std::int64_t source) const {
  const Sums& s = sums(layer, source);
  return s.sum_KH.sum({0}) / s.count_K.sum();
}

at::Tensor GateMeans::of_kinds(std::int64_t layer, std::int64_t source) const {
  const Sums& s = sums(layer, source);
  const at::Tensor count = s.count_K.unsqueeze(-1);
  return at::where(count.gt(0), s.sum_KH / count.clamp_min(1), of_heads(layer, source).unsqueeze(0));
}

double GateMeans::overall() const {
  double sum = 0, count = 0;
  for (const auto& [key, s] : sums_) {
    sum += s.sum_KH.sum().item<double>();
    count += s.count_K.sum().item<double>() * static_cast<double>(s.sum_KH.size(1));
  }
  return count > 0 ? sum / count : 0.0;
}

}  // namespace satformer
