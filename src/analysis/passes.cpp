#include "analysis/passes.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/isfinite.h>

#include <algorithm>

#include "base/error.h"

namespace satformer {

at::Tensor row_losses(Model& model, const at::Tensor& tokens_WT1, const PassOptions& options) {
  at::NoGradGuard no_grad;
  const at::Device device = model.parameters().device();
  const std::int64_t W = tokens_WT1.size(0), T = tokens_WT1.size(1) - 1;
  const at::Tensor losses = at::empty({W, T}, at::kFloat);
  for (std::int64_t first = 0; first < W; first += options.batch_size) {
    const std::int64_t count = std::min(options.batch_size, W - first);
    const at::Tensor rows = tokens_WT1.narrow(0, first, count);
    const at::Tensor ids = rows.narrow(1, 0, T).contiguous().to(device);
    const at::Tensor targets = rows.narrow(1, 1, T).contiguous().to(device);
    if (options.before) options.before(first, ids, targets);
    ForwardOptions forward;
    forward.observer = options.observer;
    forward.document_end = options.document_end;
    losses.narrow(0, first, count).copy_(model.losses(ids, targets, forward));
    if (options.progress) options.progress(first + count, W);
  }
  if (!at::isfinite(losses).all().item<bool>()) {
    fail(ExitCode::non_finite, "the model's loss is not finite on these data");
  }
  return losses;
}

}  // namespace satformer
