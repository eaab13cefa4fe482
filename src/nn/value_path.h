// Which values attention uses. A value path sees the normalised input of the value projection and its output, and
// knows nothing of how streams are routed.
#pragma once

#include "kernels/tensor.h"

#include <cstdint>
#include <memory>
#include <vector>

#include "kernels/decode/decode.h"
#include "nn/compute_weights.h"
#include "nn/kv_cache.h"
#include "nn/model_config.h"
#include "nn/observer.h"
#include "nn/parameters.h"

namespace satformer {

// What early layers offer to later ones in one forward pass. `carried` crosses layers and its meaning is the path's
// own (values of the source layers; all layers' keys and values); `local` lives within one attention sublayer.
struct ValueState {
  std::vector<at::Tensor> carried;
  std::vector<at::Tensor> local;
};

// What a value path is given besides the values.
struct ValueContext {
  ComputeWeights& weights;
  LayerObserver* observer = nullptr;  // may watch and replace gates and values
  at::Tensor valid_BT;                // bool: tokens, not pads; undefined: all
  KvCache* cache = nullptr;           // keeps running sums while decoding
  at::Tensor document_start_BT;       // int64, where the document of each position starts; undefined: one document
};

class ValuePath {
 public:
  virtual ~ValuePath() = default;
  // input: what the value projection read [B, T, C]; v: its output [B, T, Hkv, D], undefined where the layer has none
  // (ModelConfig::projects_values). Returns the values to attend to.
  virtual at::Tensor mix(std::int64_t layer, const at::Tensor& input_BTC, const at::Tensor& v_BTHD, ValueState& state,
                         const ValueContext& context) const = 0;
  // k: the key projection [B, T, Hkv, D], before its norm and rotation. Called after mix(). Returns the keys to use.
  virtual at::Tensor mix_keys(std::int64_t layer, const at::Tensor& k_BTHD, ValueState& state,
                              const ValueContext& context) const {
    (void)layer;
    (void)state;
    (void)context;
    return k_BTHD;
  }
  // out: attention's output [B, T, H, D] over the query heads. Returns what the output projection reads.
  virtual at::Tensor add_to_output(std::int64_t layer, const at::Tensor& input_BTC, const at::Tensor& out_BTHD,
                                   ValueState& state, const ValueContext& context) const {
    (void)layer;
    (void)input_BTC;
    (void)state;
    (void)context;
    return out_BTHD;
  }
  // Each layer's mix where that is all the path does; empty otherwise.
  virtual std::vector<TokenMix> token_mixes(ComputeWeights& weights) const {
    (void)weights;
    return {};
  }
};

// Builds the path that `config.value_path` names; its parameters join `store` under the authors' names.
std::unique_ptr<ValuePath> make_value_path(const ModelConfig& config, ParameterStore& store);

}  // namespace satformer
