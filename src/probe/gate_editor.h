// Carries out an intervention's edits of gates during a pass.
#pragma once

#include "probe/gate_means.h"
#include "probe/intervention.h"

namespace satformer {

class GateEditor : public LayerObserver {
 public:
  // `means` outlives the editor; needed by edits with `mean`. Edits of learned weights are left to WeightEdits.
  explicit GateEditor(const Intervention& intervention, const GateMeans* means = nullptr);

  // Before each pass: kinds of its tokens (uint8 [B, T]; undefined: none of the edits asks for them), and the number
  // of its first row, from which shuffles follow whatever the batches are.
  void begin(const at::Tensor& kinds_BT, std::int64_t first_row);

  // The same tensor where no edit applies, so that the pass keeps its bits.
  at::Tensor source_gate(std::int64_t layer, std::int64_t source, const at::Tensor& alpha_BTH) override;

 private:
  at::Tensor apply(const Edit& edit, std::int64_t layer, std::int64_t source, const at::Tensor& alpha_BTH) const;
  at::Tensor means_of(const Edit& edit, std::int64_t layer, std::int64_t source, const at::Tensor& alpha_BTH) const;
  at::Tensor shuffled(const Edit& edit, std::int64_t layer, const at::Tensor& alpha_BTH) const;

  std::vector<Edit> edits_;
  const GateMeans* means_;
  at::Tensor kinds_BT_;  // on the CPU
  std::int64_t first_row_ = 0;
};

}  // namespace satformer
