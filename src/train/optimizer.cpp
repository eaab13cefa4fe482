#include "train/optimizer.h"

#include <ATen/ops/zeros_like.h>

#include <cmath>

#include "base/random.h"

namespace satformer {

bool Optimizer::decays(ParamKind kind, bool decay_all) {
  return decay_all || kind == ParamKind::matrix || kind == ParamKind::embedding;
}

Optimizer::Optimizer(ParameterStore& parameters, const OptimizerOptions& options) : options_(options) {
  for (const Parameter& p : parameters.list()) {
    const at::Tensor like = p.value.detach();
    slots_.push_back(
        {p.name, p.value, at::zeros_like(like), at::zeros_like(like), decays(p.kind, options.decay_all)});
  }
}

void Optimizer::clear_gradients() {
  for (Slot& slot : slots_) slot.param.mutable_grad().reset();
}

double Optimizer::gradient_norm() const {
  std::vector<at::Tensor> grads;
  for (const Slot& slot : slots_) {
    if (slot.param.grad().defined()) grads.push_back(slot.param.grad());
  }
  return global_norm(grads);
}

std::vector<std::string> Optimizer::non_finite_gradients(std::size_t limit) const {
  std::vector<std::string> names;
  for (const Slot& slot : slots_) {
    if (names.size() >= limit) break;
    if (slot.param.grad().defined() && !std::isfinite(global_norm({slot.param.grad()}))) names.push_back(slot.name);
  }
  return names;
}

void Optimizer::step(double learning_rate, double norm) {
  ++steps_;
  AdamWOptions options;
  options.learning_rate = learning_rate;
  options.beta1 = options_.beta1;
  options.beta2 = options_.beta2;
  options.eps = options_.eps;
  options.step = steps_;
  if (options_.grad_clip > 0) options.grad_scale = std::min(1.0, options_.grad_clip / (norm + 1e-6));
  for (const bool decay : {true, false}) {
    AdamWTensors group;
    std::vector<std::uint64_t> streams;
    for (Slot& slot : slots_) {
      if (slot.decay != decay || !slot.param.grad().defined()) continue;
      group.params.push_back(slot.param);
      group.grads.push_back(slot.param.grad());
      group.m.push_back(slot.m);
      group.v.push_back(slot.v);
      streams.push_back(hash_name(slot.name));
    }
    options.weight_decay = decay ? options_.weight_decay : 0.0;
    if (group.params.empty()) continue;
    if (group.params[0].scalar_type() == at::kBFloat16) {
      adamw_step_bf16(group, options, options_.rounding, options_.seed, streams);
    } else {
      adamw_step(group, options);
    }
  }
}

std::vector<Optimizer::Moment> Optimizer::moments() const {
  std::vector<Moment> list;
  for (const Slot& slot : slots_) {
    list.push_back({slot.name + ".exp_avg", slot.m});
    list.push_back({slot.name + ".exp_avg_sq", slot.v});
  }
  return list;
}

}  // namespace satformer
