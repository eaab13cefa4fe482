// What an intervention does to the loss.
#pragma once

#include "analysis/estimate.h"
#include "analysis/study.h"
#include "probe/gate_means.h"

namespace satformer {

// Means of the gates of a measurement, over heads and kinds.
GateMeans measured_means(const Measurement& measured);

// Losses [W, T] of the measured windows under an intervention. The model is as before afterwards. `observer`
// (optional) sees the edited gates.
at::Tensor edited_losses(const StudyInput& input, const Intervention& intervention, const GateMeans& means,
                         LayerObserver* observer = nullptr);

struct Effect {
  Estimate all;                 // mean change of the loss in nats, edited - unedited, paired by window
  std::vector<Estimate> kinds;  // of the tokens of each kind
};
Effect effect_of(const at::Tensor& edited_WT, const Measurement& measured, const std::string& name,
                 std::int64_t resamples);

}  // namespace satformer
