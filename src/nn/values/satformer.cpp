// SATFormer (arXiv 2605.03953): V'_n = V_n + g(x_n W + b) * V_1, one gate per token and KV head.
#include <ATen/ops/linear.h>

#include "base/error.h"
#include "kernels/value_gate/value_gate.h"
#include "nn/values/value_paths.h"

namespace satformer {
namespace {

class SatFormerValues : public ValuePath {
 public:
  SatFormerValues(const ModelConfig& config, ParameterStore& store)
      : gate_(gate_from_name(config.value_residual_gate)) {
    for (std::int64_t layer = 0; layer < config.num_hidden_layers; ++layer) {
      at::Tensor weight, bias;
      if (config.value_path_active(layer)) {
        const std::string prefix = concat("model.layers.", layer, ".attn.value_residual_mixing.alpha_proj.");
        weight = store.add(prefix + "weight", {config.kv_heads(), config.hidden_size},
                           Init::normal(config.initializer_range), ParamKind::gate, "value path");
        if (config.value_residual_proj_bias) {
          bias = store.add(prefix + "bias", {config.kv_heads()}, Init::constant(0), ParamKind::bias, "value path");
        }
      }
      weight_.push_back(weight);
      bias_.push_back(bias);
    }
  }

  at::Tensor mix(std::int64_t layer, const at::Tensor& input_BTC, const at::Tensor& v_BTHD, ValueState& state,
                 const ValueContext& context) const override {
    if (layer == 0) state.v1_BTHD = v_BTHD;
    const auto l = static_cast<std::size_t>(layer);
    at::Tensor mixed = v_BTHD;
    if (weight_[l].defined()) {
      const at::Tensor logits_BTH = at::linear(input_BTC, context.weights(weight_[l]), context.weights(bias_[l]));
      if (context.observer) {
        const at::Tensor alpha_BTH = gate_activation(logits_BTH, gate_);
        const at::Tensor edited_BTH = context.observer->gate(layer, alpha_BTH);
        if (!edited_BTH.is_same(alpha_BTH)) mixed = gated_value_mix(v_BTHD, state.v1_BTHD, edited_BTH);
      }
      if (mixed.is_same(v_BTHD)) {  // nothing was replaced: bit-identical to a pass without an observer
        mixed = value_gate(v_BTHD, state.v1_BTHD, logits_BTH, gate_);
      }
    }
    return context.observer ? context.observer->values(layer, v_BTHD, mixed) : mixed;
  }

 private:
  Gate gate_;
  std::vector<at::Tensor> weight_, bias_;  // undefined where the path is not active
};

}  // namespace

std::unique_ptr<ValuePath> make_satformer_values(const ModelConfig& config, ParameterStore& store) {
  return std::make_unique<SatFormerValues>(config, store);
}

}  // namespace satformer
