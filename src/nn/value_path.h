// Which values attention uses. A value path sees the normalised input of the value projection and its output, and
// knows nothing of how streams are routed.
#pragma once

#include "kernels/tensor.h"

#include <cstdint>
#include <memory>

#include "nn/compute_weights.h"
#include "nn/model_config.h"
#include "nn/observer.h"
#include "nn/parameters.h"

namespace satformer {

// Values that early layers offer to later ones, for one forward pass.
struct ValueState {
  at::Tensor v1_BTHD;  // layer 0's projection, after its bias, before any norm; undefined where nobody needs it
};

// What a value path is given besides the values.
struct ValueContext {
  ComputeWeights& weights;
  LayerObserver* observer = nullptr;  // may watch and replace gates and values
};

class ValuePath {
 public:
  virtual ~ValuePath() = default;
  // input: what the value projection read [B, T, C]; v: its output [B, T, Hkv, D]. Returns the values to attend to.
  virtual at::Tensor mix(std::int64_t layer, const at::Tensor& input_BTC, const at::Tensor& v_BTHD, ValueState& state,
                         const ValueContext& context) const = 0;
};

// Builds the path that `config.value_path` names; its parameters join `store` under the authors' names.
std::unique_ptr<ValuePath> make_value_path(const ModelConfig& config, ParameterStore& store);

}  // namespace satformer
