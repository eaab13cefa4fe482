#include "infer/window_loss.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <vector>

#include "base/error.h"
#include "kernels/linear_cross_entropy/linear_cross_entropy.h"

namespace satformer {
namespace {

// The scores of a batch's windows, from the losses and hits of its targets [count, T].
void score_windows(const at::Tensor& losses_BT, const at::Tensor& hits_BT, std::span<const TokenMark> marks,
                   std::int64_t first, const WindowLossOptions& options, WindowLoss& result) {
  const at::Tensor losses = losses_BT.to(at::kCPU).contiguous(), hits = hits_BT.to(at::kCPU).contiguous();
  const std::int64_t T = losses.size(1);
  for (std::int64_t row = 0; row < losses.size(0); ++row) {
    WindowScore score{.window = first + row};
    for (std::int64_t t = 0; t < T; ++t) {
      const TokenMark mark = marks[static_cast<std::size_t>(row * (T + 1) + t + 1)];
      if (!mark.counted()) continue;
      score.counted_loss += static_cast<double>(losses.const_data_ptr<float>()[row * T + t]);
      score.accuracy.kinds[static_cast<std::size_t>(mark.kind())].add(hits.const_data_ptr<bool>()[row * T + t]);
    }
    result.accuracy.add(score.accuracy);
    if (options.scored) options.scored(score);
  }
}

}  // namespace

Accuracy KindAccuracy::all() const {
  Accuracy sum;
  for (const Accuracy& kind : kinds) {
    sum.correct += kind.correct;
    sum.targets += kind.targets;
  }
  return sum;
}

void KindAccuracy::add(const KindAccuracy& other) {
  for (std::size_t i = 0; i < kinds.size(); ++i) {
    kinds[i].correct += other.kinds[i].correct;
    kinds[i].targets += other.kinds[i].targets;
  }
}

WindowLoss window_loss(Model& model, const WindowSource& windows, const WindowLossOptions& options) {
  if (options.marked && !windows.has_marks())
    fail(ExitCode::internal, "windows without marks have no marked targets");
  at::NoGradGuard no_grad;
  const at::Device device = model.parameters().device();
  const std::int64_t T = windows.seq_length();
  const std::int64_t total = options.max_windows > 0 ? std::min(options.max_windows, windows.size()) : windows.size();
  WindowLoss result;
  std::vector<TokenMark> marks;
  for (std::int64_t begin = 0; begin < total;) {
    const std::int64_t count = std::min(options.batch_size, total - begin);
    const auto length = static_cast<std::size_t>(T + 1);
    const at::Tensor tokens = at::empty({count, T + 1}, at::kLong);
    if (windows.has_marks()) marks.resize(static_cast<std::size_t>(count) * length);
    for (std::int64_t i = 0; i < count; ++i) {
      const std::size_t from = static_cast<std::size_t>(i) * length;
      windows.read(begin + i, {tokens.mutable_data_ptr<std::int64_t>() + from, length},
                   marks.empty() ? std::span<TokenMark>() : std::span(marks).subspan(from, length));
    }
    ForwardOptions forward;
    forward.observer = options.observer;
    forward.document_end = options.document_end;
    const at::Tensor ids = tokens.narrow(1, 0, T).contiguous().to(device);
    at::Tensor targets = tokens.narrow(1, 1, T).clone(at::MemoryFormat::Contiguous);  // a single row shares with ids
    result.targets += count * T;
    if (options.marked) {
      auto* target = targets.mutable_data_ptr<std::int64_t>();
      for (std::int64_t i = 0; i < targets.numel(); ++i) {
        if (marks[static_cast<std::size_t>(i / T * (T + 1) + i % T + 1)].counted()) continue;
        target[i] = ignore_index;
        --result.targets;
      }
    }
    targets = targets.to(device);
    at::Tensor hits;
    const at::Tensor losses = model.losses(ids, targets, forward, marks.empty() ? nullptr : &hits);
    result.loss_sum += losses.sum(at::kDouble).item<double>();
    result.windows += count;
    if (!marks.empty()) score_windows(losses, hits, marks, begin, options, result);
    begin += count;
    if (options.progress && !options.progress(result, total)) break;
  }
  return result;
}

}  // namespace satformer
