// AdamW over the parameters of a model, in groups of equal rate and decay.
#pragma once

#include "kernels/tensor.h"

#include <optional>
#include <string>
#include <vector>

#include "kernels/adamw/adamw.h"
#include "kernels/adamw/bfloat16.h"
#include "nn/parameters.h"

namespace satformer {

struct OptimizerOptions {
  double beta1 = 0.9, beta2 = 0.95, eps = 1e-8;
  double weight_decay = 0.1;
  bool decay_all = false;  // false: matrices and embeddings alone; norms, biases, gates and scalars are left free
  // Gates and scalars (ParamKind): factor on the learning rate, and a weight decay of their own (empty: as above).
  double gate_lr_scale = 1.0, scalar_lr_scale = 1.0;
  std::optional<double> gate_decay, scalar_decay;
  double grad_clip = 1.0;  // largest global norm; 0: no clipping
  // For bf16 parameters (no fp32 masters); `seed` chooses the random bits of stochastic rounding.
  Bf16Rounding rounding = Bf16Rounding::nearest;
  std::uint64_t seed = 0;
};

class Optimizer {
 public:
  // Keeps the parameters' tensors; moments start at zero on their device.
  Optimizer(ParameterStore& parameters, const OptimizerOptions& options);
  // The same of any tensors: parts of parameters, say, whose gradients the caller sets.
  struct Target {
    std::string name;
    at::Tensor value;
    ParamKind kind;
  };
  Optimizer(std::vector<Target> targets, const OptimizerOptions& options);

  void clear_gradients();
  // Global norm of all gradients; NaN or infinite if any element is.
  double gradient_norm() const;
  // Names of parameters whose gradient holds NaN or an infinity, at most `limit`.
  std::vector<std::string> non_finite_gradients(std::size_t limit) const;
  // One update with the gradients scaled by min(1, clip / norm). Parameters without a gradient are left alone.
  void step(double learning_rate, double norm);

  struct Moment {
    std::string name;  // "<parameter>.exp_avg" or "<parameter>.exp_avg_sq"
    at::Tensor value;  // in the type of the parameter, shares the optimizer's storage
  };
  std::vector<Moment> moments() const;
  std::int64_t steps() const { return steps_; }
  void set_steps(std::int64_t steps) { steps_ = steps; }
  static bool decays(ParamKind kind, bool decay_all);

 private:
  struct Slot {
    std::string name;
    at::Tensor param, m, v;
    double lr_scale, weight_decay;
  };
  OptimizerOptions options_;
  std::vector<Slot> slots_;
  std::int64_t steps_ = 0;
};

}  // namespace satformer
