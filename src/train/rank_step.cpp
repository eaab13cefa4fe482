#include "train/rank_step.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>

#include <cmath>

#include "distributed/agree.h"

namespace satformer {
namespace {

std::vector<Optimizer::Target> stretch_targets(const ParameterStore& parameters, const DataParallel& parallel) {
  std::vector<Optimizer::Target> targets;
  for (const DataParallel::Stretch& stretch : parallel.stretches()) {
    const Parameter& p = parameters.list()[stretch.parameter];
    targets.push_back({p.name, stretch.value, p.kind});
  }
  return targets;
}

}  // namespace

RankStep::RankStep(Model& model, Communicator& ranks, const OptimizerOptions& options, bool sharded)
    : model_(model),
      ranks_(ranks),
      sharded_(sharded),
      parallel_(model.parameters(), ranks, {.sharded = sharded}),
      optimizer_(sharded ? Optimizer(stretch_targets(model.parameters(), parallel_), options)
                         : Optimizer(model.parameters(), options)) {}

StepLoss RankStep::accumulate(std::span<const Batch> batches, const ForwardOptions& options, StepClock* clock) {
  at::Tensor targets = at::zeros({1}, at::kLong);
  for (const Batch& batch : batches) targets += batch.targets_BT.ne(ignored_target).sum();
  ranks_.all_reduce(targets);
  StepLoss result;
  result.targets = targets.item<std::int64_t>();
  if (result.targets == 0) fail(ExitCode::data, "a training step holds no target: every label is ", ignored_target);
  const at::Device device = model_.parameters().device();
  const double scale = 1.0 / static_cast<double>(result.targets);
  local_loss_ = 0;
  for (const Batch& batch : batches) {
    const at::Tensor loss = model_.loss(batch.ids_BT.to(device), batch.targets_BT.to(device), scale, options);
    // A recomputed layer's backward runs in pieces.
    if (&batch == &batches.back() && !options.recompute_layers) parallel_.begin_last_backward();
    if (clock) clock->end(StepPart::forward);
    loss.backward();
    local_loss_ += loss.item<double>();
    ranks_.progress();
    if (clock) clock->end(StepPart::backward);
  }
  std::vector<double> sums = {local_loss_};
  parallel_.finish_backward(sums);
  if (clock) clock->end(StepPart::communication);
  result.loss = sums[0];
  return result;
}

std::string RankStep::non_finite_sources() {
  std::string own;
  if (!std::isfinite(local_loss_)) own = concat("loss ", local_loss_);
  int named = 0;
  for (const Parameter& p : model_.parameters().list()) {
    if (named == 3) break;
    if (!p.value.grad().defined() || std::isfinite(global_norm({p.value.grad()}))) continue;
    own += concat(own.empty() ? "" : named == 0 ? ", " : "", named == 0 ? "not finite in " : ", ", p.name);
    ++named;
  }
  std::string all;
  const std::vector<std::string> texts = texts_of_ranks(ranks_, own);
  for (std::size_t rank = 0; rank < texts.size(); ++rank) {
    if (!texts[rank].empty()) all += concat(all.empty() ? "" : "; ", "rank ", rank, ": ", texts[rank]);
  }
  return all.empty() ? "finite on every rank, but not their sum" : all;
}

void RankStep::update(double learning_rate, double norm, StepClock* clock) {
  const at::NoGradGuard no_grad;
  if (!sharded_) {
    parallel_.store_gradients();
    optimizer_.step(learning_rate, norm);
    if (clock) clock->end(StepPart::optimizer);
    return;
  }
  for (const DataParallel::Stretch& stretch : parallel_.stretches()) {
    at::Tensor value = stretch.value;
    value.mutable_grad() =
        parallel_.has_gradient(stretch.parameter) ? stretch.gradient.to(value.scalar_type()) : at::Tensor();
  }
  optimizer_.step(learning_rate, norm);
  if (clock) clock->end(StepPart::optimizer);
  parallel_.gather_parameters();
  if (clock) clock->end(StepPart::communication);
}

void RankStep::clear_gradients() {
  for (Parameter& p : model_.parameters().list()) p.value.mutable_grad().reset();
}

double RankStep::optimizer_bytes() const {
  double bytes = 0;
  for (const Optimizer::Moment& moment : optimizer_.moments()) bytes += static_cast<double>(moment.value.nbytes());
  return bytes;
}

std::vector<Optimizer::Moment> RankStep::gather_moments() {
  if (!sharded_) return optimizer_.moments();
  const at::NoGradGuard no_grad;
  const std::vector<Optimizer::Moment> own = optimizer_.moments();  // m and v of each stretch in turn
  const std::vector<Parameter>& list = model_.parameters().list();
  std::vector<Optimizer::Moment> full(2 * list.size());
  for (std::size_t which = 0; which < 2; ++which) {
    std::vector<at::Tensor> parts;
    for (std::size_t i = which; i < own.size(); i += 2) parts.push_back(own[i].value);
    const std::vector<at::Tensor> whole = parallel_.gather_stretches(parts);
    if (ranks_.rank() != 0) continue;  // the others need none of it
    for (std::size_t i = 0; i < list.size(); ++i) {
      full[2 * i + which] = {list[i].name + (which == 0 ? ".exp_avg" : ".exp_avg_sq"),
                             whole[i].view(list[i].value.sizes()).to(list[i].value.scalar_type())};
    }
  }
  if (ranks_.rank() != 0) full.clear();
  return full;
}

void RankStep::load_moments(const std::function<void(const std::vector<NamedTensor>&)>& read) {
  const at::NoGradGuard no_grad;
  const std::vector<Parameter>& list = model_.parameters().list();
  const std::vector<Optimizer::Moment> own = optimizer_.moments();
  std::vector<NamedTensor> full;
  if (ranks_.rank() == 0) {
    for (std::size_t i = 0; i < list.size(); ++i) {
      for (std::size_t which = 0; which < 2; ++which) {
        full.push_back({list[i].name + (which == 0 ? ".exp_avg" : ".exp_avg_sq"),
                        sharded_ ? at::empty(list[i].value.sizes(), list[i].value.options().requires_grad(false))
                                 : own[2 * i + which].value});
      }
    }
    const LongWork reading(ranks_);
    read(full);
  }
  std::vector<std::ptrdiff_t> stretch_of(list.size(), -1);
  for (std::size_t i = 0; i < parallel_.stretches().size(); ++i) {
    stretch_of[parallel_.stretches()[i].parameter] = static_cast<std::ptrdiff_t>(i);
  }
  for (std::size_t i = 0; i < 2 * list.size(); ++i) {
    const at::Tensor& like = list[i / 2].value;
    at::Tensor carried = at::empty({like.numel()}, like.options().dtype(at::kFloat).requires_grad(false));
    if (ranks_.rank() == 0) carried.copy_(full[i].value.view({-1}));
    ranks_.broadcast(carried, 0);
    if (!sharded_) {
      own[i].value.view({-1}).copy_(carried);
    } else if (const std::ptrdiff_t stretch = stretch_of[i / 2]; stretch >= 0) {
      const std::size_t moment = 2 * static_cast<std::size_t>(stretch) + i % 2;
      const std::int64_t begin = parallel_.stretches()[static_cast<std::size_t>(stretch)].begin;
      own[moment].value.copy_(carried.narrow(0, begin, own[moment].value.numel()));
    }
  }
}

}  // namespace satformer
