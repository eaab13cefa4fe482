// Gradient of the loss into early values, through each layer that uses them.
#pragma once

#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "nn/model.h"

namespace satformer {

struct ValueGradient {
  std::int64_t layer = 0, source = 0;
  double early = 0;  // |a * dL/dV'|, a: the gate or lambda1; what reaches the source's values through this layer
  double own = 0;    // |dL/dV'| (times lambda2): what reaches the layer's own values
  double gate = 0;   // mean |dL/dgate| over tokens and heads; NaN for ResFormer values
};

struct ValueGradients {
  std::vector<ValueGradient> layers;      // by layer, then source
  std::map<std::int64_t, double> totals;  // norm of the whole gradient of each source's values
};

// Of the mean loss over the targets of rows [B, T+1]. Parameters' gradients are left undefined.
ValueGradients value_gradients(Model& model, const at::Tensor& tokens_BT1, std::optional<std::int64_t> document_end);

}  // namespace satformer
