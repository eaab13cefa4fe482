#include "infer/window_loss.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>

#include <algorithm>

namespace satformer {

WindowLoss window_loss(Model& model, const TokenWindows& windows, const WindowLossOptions& options) {
  at::NoGradGuard no_grad;
  const at::Device device = model.parameters().device();
  const std::int64_t T = windows.seq_length();
  const std::int64_t total = options.max_windows > 0 ? std::min(options.max_windows, windows.size()) : windows.size();
  WindowLoss result;
  for (std::int64_t begin = 0; begin < total;) {
    const std::int64_t count = std::min(options.batch_size, total - begin);
    const at::Tensor tokens = at::empty({count, T + 1}, at::kLong);
    for (std::int64_t i = 0; i < count; ++i) {
      windows.read(begin + i,
                   {tokens.mutable_data_ptr<std::int64_t>() + i * (T + 1), static_cast<std::size_t>(T + 1)});
    }
    ForwardOptions forward;
    forward.observer = options.observer;
    forward.document_end = options.document_end;
    const at::Tensor ids = tokens.narrow(1, 0, T).contiguous().to(device);
    const at::Tensor targets = tokens.narrow(1, 1, T).contiguous().to(device);
    result.loss_sum += model.losses(ids, targets, forward).sum(at::kDouble).item<double>();
    result.targets += count * T;
    result.windows += count;
    begin += count;
    if (options.progress && !options.progress(result, total)) break;
  }
  return result;
}

}  // namespace satformer
