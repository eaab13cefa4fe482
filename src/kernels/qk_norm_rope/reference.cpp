#include <ATen/ops/cat.h>
#include "kernels/tensor.h"

#include "kernels/qk_norm_rope/qk_norm_rope.h"
#include "kernels/rms_norm/rms_norm.h"

namespace satformer::reference {

at::Tensor qk_norm_rope(const at::Tensor& x_BTHD, const at::Tensor& weight, double eps, const RopeTable& table,
                        const at::Tensor& positions_BT) {
  const at::Tensor x = weight.defined() ? rms_norm(x_BTHD, weight, eps) : x_BTHD;
  const std::int64_t T = x.size(1), half = x.size(3) / 2;
  at::Tensor cos, sin;  // broadcast to [B, T, 1, D/2]
  if (positions_BT.defined()) {
    cos = table.cos_PD.index_select(0, positions_BT.flatten()).view({x.size(0), T, 1, half});
    sin = table.sin_PD.index_select(0, positions_BT.flatten()).view({x.size(0), T, 1, half});
  } else {
    cos = table.cos_PD.slice(0, 0, T).view({1, T, 1, half});
    sin = table.sin_PD.slice(0, 0, T).view({1, T, 1, half});
  }
  const auto fp32 = [&](const at::Tensor& t) { return t.to(x.scalar_type()).to(at::kFloat); };
  cos = fp32(cos);
  sin = fp32(sin);
  const at::Tensor first = x.narrow(3, 0, half).to(at::kFloat), second = x.narrow(3, half, half).to(at::kFloat);
  return at::cat({first * cos - second * sin, first * sin + second * cos}, 3).to(x.scalar_type());
}

}  // namespace satformer::reference
