// LIMe (arXiv 2502.09245): every KV head of a layer mixes those of all layers up to it, with weights that are the
// same for every token and start as the identity.
//   V'_{n,h} = sum_{m <= n, j} R_n[h, m Hkv + j] V_{m,j}, and keys with the same R_n, before their norm and rotation
#include <ATen/ops/cat.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/stack.h>

#include "base/error.h"
#include "nn/values/value_paths.h"

namespace satformer {
namespace {

// carried = {V_0, K_0, V_1, K_1, ...}, or {V_0, V_1, ...} without keys.
class LimeValues : public ValuePath {
 public:
  LimeValues(const ModelConfig& config, ParameterStore& store) : keys_(config.lime_keys) {
    const std::int64_t H = config.kv_heads();
    for (std::int64_t layer = 0; layer < config.num_hidden_layers; ++layer) {
      router_.emplace_back();
      if (!config.value_path_active(layer)) continue;
      const std::int64_t columns = (layer + 1) * H;
      std::vector<float> identity(static_cast<std::size_t>(H * columns), 0.0f);
      for (std::int64_t h = 0; h < H; ++h) identity[static_cast<std::size_t>(h * columns + layer * H + h)] = 1.0f;
      router_.back() = store.add(concat("model.layers.", layer, ".attn.value_residual_mixing.router"), {H, columns},
                                 Init::elements(std::move(identity)), ParamKind::scalar, "value path");
    }
  }

  at::Tensor mix(std::int64_t layer, const at::Tensor&, const at::Tensor& v_BTHD, ValueState& state,
                 const ValueContext& context) const override {
    state.carried.push_back(v_BTHD);
    const at::Tensor mixed = routed(layer, v_BTHD, 0, state, context);
    return context.observer ? context.observer->values(layer, v_BTHD, mixed) : mixed;
  }
  at::Tensor mix_keys(std::int64_t layer, const at::Tensor& k_BTHD, ValueState& state,
                      const ValueContext& context) const override {
    if (!keys_) return k_BTHD;
    state.carried.push_back(k_BTHD);
    return routed(layer, k_BTHD, 1, state, context);
  }

 private:
  // Own values or keys where the layer has no router; `first`: index of layer 0's in `carried`.
  at::Tensor routed(std::int64_t layer, const at::Tensor& own_BTHD, std::size_t first, const ValueState& state,
                    const ValueContext& context) const {
    const at::Tensor& router = router_[static_cast<std::size_t>(layer)];
    if (!router.defined()) return own_BTHD;
    std::vector<at::Tensor> pool;
    for (std::size_t i = first; i < state.carried.size(); i += keys_ ? 2 : 1) pool.push_back(state.carried[i]);
    const at::Tensor pool_BTDP = at::cat(pool, 2).transpose(2, 3), weight = context.weights(router);
    const std::int64_t B = pool_BTDP.size(0), T = pool_BTDP.size(1);
    if (!few_rows(own_BTHD.flatten(2))) return at::linear(pool_BTDP, weight).transpose(2, 3);
    // One product for each token, so that it has the same bits alone.
    std::vector<at::Tensor> tokens;
    for (std::int64_t i = 0; i < B * T; ++i) tokens.push_back(at::linear(pool_BTDP[i / T][i % T], weight));
    return at::stack(tokens).view({B, T, pool_BTDP.size(2), weight.size(0)}).transpose(2, 3);
  }

  bool keys_;
  std::vector<at::Tensor> router_;  // undefined where the path is not active
};

}  // namespace

std::unique_ptr<ValuePath> make_lime_values(const ModelConfig& config, ParameterStore& store) {
  return std::make_unique<LimeValues>(config, store);
}

}  // namespace satformer
