#include "kernels/linear_cross_entropy/linear_cross_entropy.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/logsumexp.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <vector>

#include "base/error.h"
#include "kernels/backend.h"

namespace satformer {
namespace {

// On a GPU the check would wait for the device; there the reference's own kernels assert.
void check_targets(const at::Tensor& targets_N, std::int64_t rows, std::int64_t classes) {
  if (targets_N.dim() != 1 || targets_N.size(0) != rows || targets_N.scalar_type() != at::kLong) {
    fail(ExitCode::internal, "linear_cross_entropy: targets must be int64 [", rows, "]");
  }
  if (!targets_N.is_cpu()) return;
  const at::Tensor targets = targets_N.contiguous();
  const std::int64_t* target = targets.const_data_ptr<std::int64_t>();
  for (std::int64_t i = 0; i < rows; ++i) {
    if (target[i] == ignore_index || (target[i] >= 0 && target[i] < classes)) continue;
    fail(ExitCode::data, "target id ", target[i], " at position ", i, " is not in the vocabulary of ", classes);
  }
}

}  // namespace

at::Tensor linear_cross_entropy(const at::Tensor& hidden_NC, const at::Tensor& weight_VC, const at::Tensor& targets_N,
                                double scale) {
  check_targets(targets_N, hidden_NC.size(0), weight_VC.size(0));
  const bool alike = hidden_NC.scalar_type() == weight_VC.scalar_type();
  return choose(hidden_NC, {alike, alike}, cpu::linear_cross_entropy, gpu::linear_cross_entropy,
                reference::linear_cross_entropy)(hidden_NC, weight_VC, targets_N, scale);
}

at::Tensor token_losses(const at::Tensor& hidden_NC, const at::Tensor& weight_VC, const at::Tensor& targets_N,
                        at::Tensor* greedy) {
  at::NoGradGuard no_grad;
  check_targets(targets_N, hidden_NC.size(0), weight_VC.size(0));
  const at::Tensor counted = targets_N.ne(ignore_index).nonzero().squeeze(1);
  if (counted.size(0) < hidden_NC.size(0)) {  // no logits for what is ignored
    at::Tensor all = at::zeros({hidden_NC.size(0)}, hidden_NC.options().dtype(at::kFloat));
    if (greedy) *greedy = at::zeros({hidden_NC.size(0)}, hidden_NC.options().dtype(at::kBool));
    if (counted.size(0) == 0) return all;
    at::Tensor hits;
    all.index_copy_(0, counted,
                    token_losses(hidden_NC.index_select(0, counted), weight_VC, targets_N.index_select(0, counted),
                                 greedy ? &hits : nullptr));
    if (greedy) greedy->index_copy_(0, counted, hits);
    return all;
  }
  // Chunks of about 64 MiB of fp32 logits.
  const std::int64_t rows =
      std::max<std::int64_t>(16, (std::int64_t{16} << 20) / std::max<std::int64_t>(1, weight_VC.size(0)));
  std::vector<at::Tensor> losses, hits;
  for (std::int64_t begin = 0; begin < hidden_NC.size(0); begin += rows) {
    const std::int64_t count = std::min(rows, hidden_NC.size(0) - begin);
    const at::Tensor logits_NV = at::linear(hidden_NC.narrow(0, begin, count), weight_VC).to(at::kFloat);
    const at::Tensor targets = targets_N.narrow(0, begin, count);
    const at::Tensor target_logit = logits_NV.gather(1, targets.unsqueeze(1)).squeeze(1);
    losses.push_back(at::logsumexp(logits_NV, {1}) - target_logit);
    if (greedy) hits.push_back(logits_NV.argmax(1).eq(targets));
  }
  if (greedy) *greedy = at::cat(hits);
  return at::cat(losses);
}

}  // namespace satformer
