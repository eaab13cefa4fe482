#include "kernels/adamw/bfloat16.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/_fused_adamw.h>
#include <ATen/ops/full.h>
#include <ATen/ops/mul.h>

#include <bit>
#include <cmath>

#include "base/error.h"
#include "base/random.h"
#include "kernels/parallel.h"

namespace satformer {
namespace {

float to_float(std::uint16_t value) { return std::bit_cast<float>(std::uint32_t{value} << 16); }

// So many elements at once, so that there is no second copy of all gradients.
constexpr std::int64_t elements_at_once = 1 << 22;

void step_nearest(const AdamWTensors& t, const AdamWOptions& o) {
  for (std::size_t begin = 0, end = 0; begin < t.params.size(); begin = end) {
    AdamWTensors part;
    std::vector<at::Tensor> steps;
    for (std::int64_t elements = 0; end < t.params.size() && elements < elements_at_once; ++end) {
      const at::Tensor& grad = t.grads[end];
      elements += grad.numel();
      part.params.push_back(t.params[end]);
      // Clipping stores the gradients in bf16 before the optimizer reads them.
      part.grads.push_back(o.grad_scale == 1.0 ? grad : at::mul(grad, o.grad_scale));
      part.m.push_back(t.m[end]);
      part.v.push_back(t.v[end]);
      steps.push_back(at::full({}, static_cast<double>(o.step), grad.options().dtype(at::kFloat)));
    }
    at::_fused_adamw_(part.params, part.grads, part.m, part.v, {}, steps, o.learning_rate, o.beta1, o.beta2,
                      o.weight_decay, o.eps, false, false);
  }
}

void step_stochastic(AdamWTensors& t, const AdamWOptions& o, std::uint64_t seed,
                     const std::vector<std::uint64_t>& streams) {
  const auto step = static_cast<double>(o.step);
  const auto root_correction2 = static_cast<float>(std::sqrt(1.0 - std::pow(o.beta2, step)));
  const auto step_size = static_cast<float>(o.learning_rate / (1.0 - std::pow(o.beta1, step)));
  const auto lost = static_cast<float>(o.learning_rate * o.weight_decay);
  const auto rest1 = static_cast<float>(1.0 - o.beta1), rest2 = static_cast<float>(1.0 - o.beta2);
  const auto beta2 = static_cast<float>(o.beta2), eps = static_cast<float>(o.eps);
  for (std::size_t i = 0; i < t.params.size(); ++i) {
    const Philox random(seed ^ (static_cast<std::uint64_t>(o.step) * 0x9E3779B97F4A7C15u), streams[i]);
    const at::Tensor grad = (o.grad_scale == 1.0 ? t.grads[i] : at::mul(t.grads[i], o.grad_scale)).contiguous();
    const auto* g = static_cast<const std::uint16_t*>(grad.const_data_ptr());
    auto* p = static_cast<std::uint16_t*>(t.params[i].mutable_data_ptr());
    auto* m = static_cast<std::uint16_t*>(t.m[i].mutable_data_ptr());
    auto* v = static_cast<std::uint16_t*>(t.v[i].mutable_data_ptr());
    parallel_ranges(t.params[i].numel(), 16, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t e = begin; e < end; ++e) {
        const float gradient = to_float(g[e]);
        float param = to_float(p[e]);
        param -= lost * param;
        const float first = to_float(m[e]) + rest1 * (gradient - to_float(m[e]));
        const float second = beta2 * to_float(v[e]) + rest2 * gradient * gradient;
        param -= step_size * first / (std::sqrt(second) / root_correction2 + eps);
        const auto bits = random.block(static_cast<std::uint64_t>(e));
        p[e] = round_stochastically(param, static_cast<std::uint16_t>(bits[0]));
        m[e] = round_stochastically(first, static_cast<std::uint16_t>(bits[1]));
        v[e] = round_stochastically(second, static_cast<std::uint16_t>(bits[2]));
      }
    });
    for (auto* list : {&t.params, &t.m, &t.v}) (*list)[i].unsafeGetTensorImpl()->bump_version();
  }
}

}  // namespace

std::uint16_t round_stochastically(float value, std::uint16_t bits) {
  const auto raw = std::bit_cast<std::uint32_t>(value);
  if ((raw & 0x7F800000u) == 0x7F800000u) {  // infinite, or NaN, whose payload must not vanish
    return static_cast<std::uint16_t>((raw >> 16) | ((raw & 0x007FFFFFu) != 0 ? 0x40u : 0u));
  }
  return static_cast<std::uint16_t>((raw + bits) >> 16);
}

void adamw_step_bf16(AdamWTensors& tensors, const AdamWOptions& options, Bf16Rounding rounding, std::uint64_t seed,
                     const std::vector<std::uint64_t>& streams) {
  const at::NoGradGuard no_grad;
  const bool random = rounding == Bf16Rounding::stochastic;
  for (std::size_t i = 0; i < tensors.params.size(); ++i) {
    for (const auto* list : {&tensors.params, &tensors.grads, &tensors.m, &tensors.v}) {
      const at::Tensor& x = (*list)[i];
      if (!x.defined() || x.scalar_type() != at::kBFloat16 || x.numel() != tensors.params[i].numel() || !x.is_cpu() ||
          (list != &tensors.grads && !x.is_contiguous())) {
        fail(ExitCode::internal, "adamw_step_bf16: tensor ", i, " is not bf16 or not of its parameter's size",
             random ? ", or not on the CPU" : "");
      }
    }
  }
  if (!random) return step_nearest(tensors, options);
  if (streams.size() != tensors.params.size()) fail(ExitCode::internal, "adamw_step_bf16: a stream for each tensor");
  step_stochastic(tensors, options, seed, streams);
}

}  // namespace satformer
