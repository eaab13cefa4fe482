#include "kernels/qk_norm_rope/qk_norm_rope.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/outer.h>
#include <ATen/ops/pow.h>

#include "base/error.h"
#include "kernels/backend.h"

namespace satformer {

RopeTable make_rope_table(std::int64_t positions, std::int64_t head_dim, double theta, at::Device device) {
  const auto options = at::TensorOptions().dtype(at::kFloat).device(device);
  // Frequencies in fp32, as the authors compute them: 1 / theta^(2i/D).
  const at::Tensor exponent = at::arange(0, head_dim, 2, options) / static_cast<double>(head_dim);
  const at::Tensor frequency = at::pow(theta, exponent).reciprocal();
  const at::Tensor angle = at::outer(at::arange(positions, options), frequency);
  return {angle.cos(), angle.sin()};
}

at::Tensor qk_norm_rope(const at::Tensor& x_BTHD, const at::Tensor& weight, double eps, const RopeTable& table,
                        const at::Tensor& positions_BT) {
  const std::int64_t D = x_BTHD.size(3);
  if (D % 2 != 0 || table.cos_PD.size(1) != D / 2 || (weight.defined() && weight.numel() != D)) {
    fail(ExitCode::internal, "qk_norm_rope: a head of ", D, " does not fit the table or the norm's weight");
  }
  return choose(x_BTHD, {.gpu = D <= 1024}, cpu::qk_norm_rope, gpu::qk_norm_rope, reference::qk_norm_rope)(
      x_BTHD, weight, eps, table, positions_BT);
}

}  // namespace satformer
