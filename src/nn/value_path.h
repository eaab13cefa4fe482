// Which values attention uses. A value path sees the normalised input of the value projection and its output, and
// knows nothing of how streams are routed.
#pragma once

#include "kernels/tensor.h"

#include <cstdint>

#include "nn/observer.h"

namespace satformer {

// Values that early layers offer to later ones, for one forward pass.
struct ValueState {
  at::Tensor v1_BTHD;  // layer 0's projection, after its bias, before any norm; undefined where nobody needs it
};

class ValuePath {
 public:
  virtual ~ValuePath() = default;
  // input: what the value projection read [B, T, C]; v: its output [B, T, Hkv, D]. Returns the values to attend to.
  virtual at::Tensor mix(std::int64_t layer, const at::Tensor& input_BTC, const at::Tensor& v_BTHD, ValueState& state,
                         LayerObserver* observer) const = 0;
};

}  // namespace satformer
