// Carries out an intervention's edits of learned weights: in place, for as long as the object lives.
#pragma once

#include <utility>
#include <vector>

#include "probe/intervention.h"

namespace satformer {

// The model must not be used by others meanwhile. The destructor gives every weight its former bits. Edits of gates
// are left to GateEditor.
class WeightEdits {
 public:
  WeightEdits(Model& model, const Intervention& intervention);
  ~WeightEdits();
  WeightEdits(const WeightEdits&) = delete;
  WeightEdits& operator=(const WeightEdits&) = delete;

 private:
  at::Tensor edited(Model& model, const std::string& name);  // keeps the old value once
  void edit_lambdas(Model& model, const Edit& edit, const std::vector<std::int64_t>& layers);

  std::vector<std::pair<at::Tensor, at::Tensor>> kept_;  // parameter, its former value
};

// ResFormer's weight of layer 0's values in each layer after the first, fp64 [L - 1].
at::Tensor resformer_lambda1(const Model& model);

}  // namespace satformer
