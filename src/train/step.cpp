#include "train/step.h"

#include "base/error.h"

namespace satformer {

StepLoss accumulate_gradients(Model& model, std::span<const Batch> batches, const ForwardOptions& options,
                              const std::function<bool()>& stop, StepClock* clock) {
  StepLoss result;
  for (const Batch& batch : batches) result.targets += batch.targets_BT.ne(ignored_target).sum().item<std::int64_t>();
  if (result.targets == 0) fail(ExitCode::data, "a training step holds no target: every label is ", ignored_target);
  const at::Device device = model.parameters().device();
  const double scale = 1.0 / static_cast<double>(result.targets);
  for (const Batch& batch : batches) {
    if (stop && stop()) {
      result.stopped = true;
      return result;
    }
    const at::Tensor loss = model.loss(batch.ids_BT.to(device), batch.targets_BT.to(device), scale, options);
    if (clock) clock->end(StepPart::forward);
    loss.backward();
    result.loss += loss.item<double>();
    if (clock) clock->end(StepPart::backward);
  }
  return result;
}

}  // namespace satformer
