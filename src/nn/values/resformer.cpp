// ResFormer: V'_n = lambda_scale * softmax(lambda_logits)[n-1] * V_1 + lambda2_n * V_n, the same for every token.
#include <ATen/ops/softmax.h>

#include "base/error.h"
#include "kernels/value_gate/value_gate.h"
#include "nn/values/value_paths.h"

namespace satformer {
namespace {

class ResFormerValues : public ValuePath {
 public:
  ResFormerValues(const ModelConfig& config, ParameterStore& store) {
    const std::int64_t L = config.num_hidden_layers;
    for (std::int64_t layer = 0; layer < L; ++layer) {
      lambda2_.push_back(config.value_path_active(layer)
                             ? store.add(concat("model.layers.", layer, ".attn.value_residual_mixing.lambda2"), {},
                                         Init::constant(config.value_residual_lambda2_init), ParamKind::scalar,
                                         "value path")
                             : at::Tensor());
    }
    scale_ = store.add("model.lambda_manager.lambda_scale", {}, Init::constant(static_cast<double>(L)),
                       ParamKind::scalar, "value path");
    logits_ =
        store.add("model.lambda_manager.lambda_logits", {L - 1}, Init::constant(0), ParamKind::scalar, "value path");
  }

  at::Tensor mix(std::int64_t layer, const at::Tensor&, const at::Tensor& v_BTHD, ValueState& state,
                 const ValueContext& context) const override {
    if (layer == 0) state.carried = {v_BTHD};
    at::Tensor mixed = v_BTHD;
    const at::Tensor& lambda2 = lambda2_[static_cast<std::size_t>(layer)];
    if (lambda2.defined()) {
      const at::Tensor lambda1 = scale_ * at::softmax(logits_, 0).select(0, layer - 1);
      mixed = static_value_mix(v_BTHD, state.carried[0], lambda1, lambda2);
    }
    return context.observer ? context.observer->values(layer, v_BTHD, mixed) : mixed;
  }

  std::vector<TokenMix> token_mixes(ComputeWeights&) const override {
    const at::Tensor lambda1 = (scale_ * at::softmax(logits_, 0)).to(at::kFloat).to(at::kCPU).contiguous();
    std::vector<TokenMix> mixes(lambda2_.size());
    for (std::size_t layer = 1; layer < lambda2_.size(); ++layer) {
      if (!lambda2_[layer].defined()) continue;
      mixes[layer].lambdas.emplace(lambda1.const_data_ptr<float>()[layer - 1], lambda2_[layer].item<float>());
    }
    return mixes;
  }

 private:
  std::vector<at::Tensor> lambda2_;  // undefined where the path is not active
  at::Tensor scale_, logits_;
};

}  // namespace

std::unique_ptr<ValuePath> make_resformer_values(const ModelConfig& config, ParameterStore& store) {
  return std::make_unique<ResFormerValues>(config, store);
}

}  // namespace satformer
