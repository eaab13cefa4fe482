#include "train/optimizer.h"

#include <ATen/ops/zeros_like.h>

#include <cmath>
#include <set>

#include "base/random.h"

namespace satformer {

bool Optimizer::decays(ParamKind kind, bool decay_all) {
  return decay_all || kind == ParamKind::matrix || kind == ParamKind::embedding;
}

namespace {
std::vector<Optimizer::Target> targets_of(const ParameterStore& parameters) {
  std::vector<Optimizer::Target> targets;
  for (const Parameter& p : parameters.list()) targets.push_back({p.name, p.value, p.kind});
  return targets;
}
}  // namespace

Optimizer::Optimizer(ParameterStore& parameters, const OptimizerOptions& options)
    : Optimizer(targets_of(parameters), options) {}

Optimizer::Optimizer(std::vector<Target> targets, const OptimizerOptions& options) : options_(options) {
  for (const Target& p : targets) {
    const at::Tensor like = p.value.detach();
    double lr_scale = 1.0, decay = decays(p.kind, options.decay_all) ? options.weight_decay : 0.0;
    if (p.kind == ParamKind::gate) {
      lr_scale = options.gate_lr_scale;
      decay = options.gate_decay.value_or(decay);
    } else if (p.kind == ParamKind::scalar) {
      lr_scale = options.scalar_lr_scale;
      decay = options.scalar_decay.value_or(decay);
    }
    slots_.push_back({p.name, p.value, at::zeros_like(like), at::zeros_like(like), lr_scale, decay});
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
  options.beta1 = options_.beta1;
  options.beta2 = options_.beta2;
  options.eps = options_.eps;
  options.step = steps_;
  if (options_.grad_clip > 0) options.grad_scale = std::min(1.0, options_.grad_clip / (norm + 1e-6));
  std::set<std::pair<double, double>> groups;  // factor on the rate, decay
  for (const Slot& slot : slots_) groups.insert({slot.lr_scale, slot.weight_decay});
  for (const auto& [lr_scale, decay] : groups) {
    AdamWTensors group;
    std::vector<std::uint64_t> streams;
    for (Slot& slot : slots_) {
      if (slot.lr_scale != lr_scale || slot.weight_decay != decay || !slot.param.grad().defined()) continue;
      group.params.push_back(slot.param);
      group.grads.push_back(slot.param.grad());
      group.m.push_back(slot.m);
      group.v.push_back(slot.v);
      streams.push_back(hash_name(slot.name));
    }
    options.learning_rate = learning_rate * lr_scale;
    options.weight_decay = decay;
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
