// The update of a step over several ranks: each computes gradients of its share of the step's windows, all take the
// same step.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "checkpoint/training_state.h"
#include "distributed/data_parallel.h"
#include "train/optimizer.h"
#include "train/step.h"

namespace satformer {

class RankStep {
 public:
  // sharded: this rank keeps the optimizer's state of its stretches alone.
  RankStep(Model& model, Communicator& ranks, const OptimizerOptions& options, bool sharded);

  // As accumulate_gradients(), of this rank's micro-batches; the loss returned and its targets are of all ranks. No
  // gradient is changed by that of another rank yet.
  StepLoss accumulate(std::span<const Batch> batches, const ForwardOptions& options, StepClock* clock = nullptr);
  double gradient_norm() { return parallel_.norm(); }
  // After a loss or norm that is not finite: the ranks and parameters it comes from, for the error.
  std::string non_finite_sources();
  void update(double learning_rate, double norm, StepClock* clock = nullptr);
  void clear_gradients();

  std::int64_t steps() const { return optimizer_.steps(); }
  void set_steps(std::int64_t steps) { optimizer_.set_steps(steps); }
  double optimizer_bytes() const;  // on this rank

  // Every parameter's moments, as an unsharded run has them. All ranks call it.
  std::vector<Optimizer::Moment> gather_moments();  // sharded: empty but on rank 0
  // Takes rank 0's full moments; other ranks give none. Calls read() on rank 0 alone to fill the tensors it is given.
  void load_moments(const std::function<void(const std::vector<NamedTensor>&)>& read);

 private:
  Model& model_;
  Communicator& ranks_;
  const bool sharded_;
  DataParallel parallel_;
  Optimizer optimizer_;  // of all parameters, or of this rank's stretches
  double local_loss_ = 0;
};

}  // namespace satformer
