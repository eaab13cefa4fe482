#include "nn/values/gates.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/silu.h>

#include "base/error.h"
#include "nn/values/running_mean.h"

namespace satformer {

LayerGates::LayerGates(const ModelConfig& config, std::int64_t layer, ParameterStore& store)
    : layer_(layer),
      sources_(static_cast<std::int64_t>(config.value_sources.size())),
      kv_heads_(config.kv_heads()),
      gate_(gate_from_name(config.value_residual_gate)) {
  const std::string& granularity = config.value_gate_granularity;
  const std::string prefix = concat("model.layers.", layer, ".attn.value_residual_mixing.");
  if (granularity == "static") {
    scalars_ = store.add(prefix + "alpha", {sources_}, Init::constant(config.value_gate_bias_init), ParamKind::scalar,
                         "value path");
  } else if (granularity == "factorised") {
    add_map(config, prefix + "layer_", false, true, store);
    add_map(config, prefix + "head_", true, true, store);
    add_map(config, prefix + "token_", false, false, store);
  } else {
    add_map(config, prefix, granularity == "token_head" || granularity == "head",
            granularity == "head" || granularity == "layer", store);
  }
}

void LayerGates::add_map(const ModelConfig& config, const std::string& name, bool per_head, bool running,
                         ParameterStore& store) {
  const std::int64_t outputs = config.gate_outputs(per_head), F = config.value_gate_ffn;
  const Init init = Init::normal(config.gate_init_std());
  Map map{per_head, running, {}, {}, {}};
  if (F > 0) {
    map.hidden =
        store.add(name + "alpha_hidden.weight", {F, config.hidden_size}, init, ParamKind::gate, "value path");
  }
  map.weight = store.add(name + "alpha_proj.weight", {outputs, F > 0 ? F : config.hidden_size}, init, ParamKind::gate,
                         "value path");
  if (config.value_residual_proj_bias) {
    map.bias = store.add(name + "alpha_proj.bias", {outputs}, Init::constant(config.value_gate_bias_init),
                         ParamKind::gate, "value path");
  }
  maps_.push_back(map);
}

std::vector<at::Tensor> LayerGates::outputs(const at::Tensor& input_BTC, const ValueContext& context) const {
  ComputeWeights& w = context.weights;
  // The first product commutes with the mean over tokens, so that a few numbers per token are summed instead of C.
  std::vector<at::Tensor> first, running;
  for (const Map& map : maps_) {
    const bool last = !map.hidden.defined() && !map.running;
    first.push_back(
        w.linear(input_BTC, map.hidden.defined() ? map.hidden : map.weight, last ? map.bias : at::Tensor()));
    if (map.running) running.push_back(first.back());
  }
  if (!running.empty()) {
    const at::Tensor means = running_mean(layer_, at::cat(running, -1), context);
    std::int64_t begin = 0;
    for (std::size_t i = 0; i < maps_.size(); ++i) {
      if (!maps_[i].running) continue;
      const std::int64_t width = first[i].size(-1);
      first[i] = means.narrow(-1, begin, width);
      begin += width;
      if (maps_[i].bias.defined() && !maps_[i].hidden.defined()) first[i] = first[i] + maps_[i].bias;
    }
  }
  for (std::size_t i = 0; i < maps_.size(); ++i) {
    if (!maps_[i].hidden.defined()) continue;
    const at::Tensor hidden = row_by_row(first[i].to(w.dtype()), [](const at::Tensor& x) { return at::silu(x); });
    first[i] = w.linear(hidden, maps_[i].weight, maps_[i].bias);
  }
  return first;
}

at::Tensor LayerGates::expanded(const Map& map, const at::Tensor& output, std::int64_t source,
                                at::IntArrayRef BT) const {
  const std::int64_t width = map.per_head ? kv_heads_ : 1;
  return output.narrow(-1, source * width, width).expand({BT[0], BT[1], kv_heads_});
}

GateLogits LayerGates::logits(const at::Tensor& input_BTC, const ValueContext& context) const {
  const std::vector<std::int64_t> BT = {input_BTC.size(0), input_BTC.size(1)};
  GateLogits result{{}, maps_.size() > 1 ? Gate::identity : gate_};
  const std::vector<at::Tensor> outputs = this->outputs(input_BTC, context);
  if (sources_ == 1 && maps_.size() == 1 && maps_[0].per_head) return {outputs, gate_};  // already [B, T, H]
  for (std::int64_t s = 0; s < sources_; ++s) {
    if (maps_.empty()) {
      result.logits_BTH.push_back(scalars_.select(0, s).expand({BT[0], BT[1], kv_heads_}));
      continue;
    }
    at::Tensor logits = expanded(maps_[0], outputs[0], s, BT);
    if (maps_.size() > 1) {
      logits = gate_activation(logits, gate_);
      for (std::size_t i = 1; i < maps_.size(); ++i) {
        logits = logits * gate_activation(expanded(maps_[i], outputs[i], s, BT), gate_);
      }
    }
    result.logits_BTH.push_back(logits);
  }
  return result;
}

std::optional<TokenMix> LayerGates::token_mix(ComputeWeights& weights) const {
  if (sources_ != 1 || maps_.size() != 1) return std::nullopt;
  const Map& map = maps_[0];
  if (!map.per_head || map.running || map.hidden.defined()) return std::nullopt;
  return TokenMix{weights.linear_weight(map.weight, map.bias), gate_};
}

}  // namespace satformer
