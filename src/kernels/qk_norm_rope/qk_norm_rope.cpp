#include "kernels/qk_norm_rope/qk_norm_rope.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/outer.h>
#include <ATen/ops/pow.h>
#include <ATen/ops/zeros_like.h>

#include <numbers>

#include "base/error.h"
#include "kernels/backend.h"

namespace satformer {

namespace {

// In fp32, as the authors compute them: 1 / theta^(2i/D).
at::Tensor rope_frequencies(std::int64_t head_dim, double theta, const at::TensorOptions& options) {
  const at::Tensor exponent = at::arange(0, head_dim, 2, options) / static_cast<double>(head_dim);
  return at::pow(theta, exponent).reciprocal();
}

}  // namespace

at::Tensor rope_factors(std::int64_t head_dim, double theta, const RopeScaling& s) {
  const at::Tensor frequency = rope_frequencies(head_dim, theta, at::TensorOptions().dtype(at::kFloat));
  const at::Tensor one = at::ones_like(frequency);
  if (s.kind == RopeScaling::Kind::none) return one;
  if (s.kind == RopeScaling::Kind::linear) return one / s.factor;
  const at::Tensor turns = frequency * (static_cast<double>(s.original_positions) / (2 * std::numbers::pi));
  const at::Tensor kept = ((turns - s.low) / (s.high - s.low)).clamp(0, 1);
  return kept + (one - kept) / s.factor;
}

RopeTable make_rope_table(std::int64_t positions, std::int64_t head_dim, double theta, at::Device device,
                          const RopeScaling& scaling) {
  const auto options = at::TensorOptions().dtype(at::kFloat).device(device);
  at::Tensor frequency = rope_frequencies(head_dim, theta, options);
  if (scaling.kind != RopeScaling::Kind::none) frequency *= rope_factors(head_dim, theta, scaling).to(device);
  const at::Tensor angle = at::outer(at::arange(positions, options), frequency);
  return {angle.cos(), angle.sin()};
}

RopeTable no_rotation(std::int64_t positions, std::int64_t head_dim, at::Device device) {
  const at::Tensor one = at::ones({positions, head_dim / 2}, at::TensorOptions().dtype(at::kFloat).device(device));
  return {one, at::zeros_like(one)};
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
