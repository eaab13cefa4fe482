#include "analysis/stream_probes.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/diagonal.h>
#include <ATen/ops/embedding.h>
#include <ATen/ops/eye.h>
#include <ATen/ops/linalg_solve.h>
#include <ATen/ops/ones.h>

#include <algorithm>

#include "base/error.h"
#include "kernels/linear_cross_entropy/linear_cross_entropy.h"

namespace satformer {
namespace {

at::Tensor parameter(const Model& model, const char* name) {
  const Parameter* p = model.parameters().find(name);
  return p ? p->value.detach() : at::Tensor();
}

template <class T>
T& entry(std::vector<T>& list, std::int64_t layer) {
  const auto index = static_cast<std::size_t>(layer);
  if (list.size() <= index) list.resize(index + 1);
  return list[index];
}

}  // namespace

LogitLens::LogitLens(const Model& model)
    : norm_(Norm::of_model(model.config(), "model.norm", model.parameters())),
      head_(parameter(model, "lm_head.weight")),
      dtype_(model.compute_dtype()) {
  if (!head_.defined()) head_ = parameter(model, "model.embeddings.weight");
  head_ = head_.to(dtype_);
}

void LogitLens::block_output(std::int64_t layer, const at::Tensor& x_BTC) {
  at::NoGradGuard no_grad;
  const at::Tensor h = norm_(x_BTC.flatten(0, 1).contiguous());
  at::Tensor greedy;
  const at::Tensor losses = token_losses(h, head_, targets_, &greedy);
  Sums& s = entry(sums_, layer);
  s.loss += losses.sum(at::kDouble).item<double>();
  s.hits += greedy.sum().item<double>();
  s.targets += static_cast<double>(targets_.numel());
}

std::vector<LogitLens::Layer> LogitLens::layers() const {
  std::vector<Layer> result;
  for (const Sums& s : sums_) result.push_back({s.loss / s.targets, s.hits / s.targets});
  return result;
}

IdentityProbe::IdentityProbe(const Model& model) {
  at::NoGradGuard no_grad;
  embedding_ = parameter(model, "model.embeddings.weight").to(at::kFloat);
  half_square_V_ = embedding_.square().sum(1) * 0.5;
}

void IdentityProbe::block_output(std::int64_t layer, const at::Tensor& x_BTC) {
  at::NoGradGuard no_grad;
  at::Tensor x = x_BTC.flatten(0, 1).to(at::kFloat);
  x = at::cat({x, at::ones({x.size(0), 1}, x.options())}, 1);
  const at::Tensor y = at::embedding(embedding_, ids_);
  State& s = entry(states_, layer);
  if (!fitted_) {
    const at::Tensor wide = x.to(at::kDouble), xx = wide.t().matmul(wide), xy = wide.t().matmul(y.to(at::kDouble));
    s.xx = s.xx.defined() ? s.xx + xx : xx;
    s.xy = s.xy.defined() ? s.xy + xy : xy;
    return;
  }
  const at::Tensor predicted = x.matmul(s.weights);
  constexpr std::int64_t rows = 1024;  // of the scores over the vocabulary held at once
  for (std::int64_t begin = 0; begin < predicted.size(0); begin += rows) {
    const std::int64_t count = std::min(rows, predicted.size(0) - begin);
    const at::Tensor scores = predicted.narrow(0, begin, count).matmul(embedding_.t()) - half_square_V_;
    s.hits += scores.argmax(1).eq(ids_.narrow(0, begin, count)).sum().item<double>();
  }
  const at::Tensor wide = y.to(at::kDouble);
  s.tokens += static_cast<double>(y.size(0));
  s.residual += (wide - predicted.to(at::kDouble)).square().sum().item<double>();
  s.square += wide.square().sum().item<double>();
  s.sum_C = s.sum_C.defined() ? s.sum_C + wide.sum(0) : wide.sum(0);
}

void IdentityProbe::end_fit() {
  at::NoGradGuard no_grad;
  if (states_.empty()) fail(ExitCode::internal, "an identity probe was not fitted");
  for (State& s : states_) {
    const std::int64_t n = s.xx.size(0);
    const double lambda = 1e-4 * s.xx.diagonal().sum().item<double>() / static_cast<double>(n);
    const at::Tensor regular = s.xx + at::eye(n, s.xx.options()) * std::max(lambda, 1e-12);
    s.weights = at::linalg_solve(regular, s.xy).to(at::kFloat);
    s.xx = s.xy = at::Tensor();
  }
  fitted_ = true;
}

std::vector<IdentityProbe::Layer> IdentityProbe::layers() const {
  std::vector<Layer> result;
  for (const State& s : states_) {
    const double spread = s.square - s.sum_C.square().sum().item<double>() / s.tokens;
    result.push_back({s.hits / s.tokens, spread > 0 ? 1 - s.residual / spread : 0});
  }
  return result;
}

}  // namespace satformer
