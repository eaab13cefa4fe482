// SATFormer (arXiv 2605.03953): V'_n = V_n + sum_s g_s(x_n) * V_s over the source layers s, by default layer 0 alone
// and one gate per token and KV head; or the same sum added to attention's output. See gates.h and sources.h.
#include <optional>

#include "nn/values/gates.h"
#include "nn/values/sources.h"
#include "nn/values/value_paths.h"

namespace satformer {
namespace {

class SatFormerValues : public ValuePath {
 public:
  SatFormerValues(const ModelConfig& config, ParameterStore& store)
      : sources_(config), at_output_(config.value_place == "output") {
    for (std::int64_t layer = 0; layer < config.num_hidden_layers; ++layer) {
      gates_.emplace_back();
      if (config.value_path_active(layer)) gates_.back().emplace(config, layer, store);
    }
  }

  at::Tensor mix(std::int64_t layer, const at::Tensor& input_BTC, const at::Tensor& v_BTHD, ValueState& state,
                 const ValueContext& context) const override {
    sources_.offer(layer, v_BTHD, state);
    at::Tensor mixed = v_BTHD;
    if (const auto& gates = gates_of(layer); gates && !at_output_) {
      const GateLogits logits = gates->logits(input_BTC, context);
      for (std::size_t s = 0; s < logits.logits_BTH.size(); ++s) {
        const at::Tensor& source_BTHD = state.carried[s];
        const at::Tensor edited_BTH = replaced_gates(layer, s, logits, context);
        mixed = edited_BTH.defined() ? gated_value_mix(mixed, source_BTHD, edited_BTH)
                                     : value_gate(mixed, source_BTHD, logits.logits_BTH[s], logits.activation);
      }
    }
    return context.observer ? context.observer->values(layer, v_BTHD, mixed) : mixed;
  }

  at::Tensor add_to_output(std::int64_t layer, const at::Tensor& input_BTC, const at::Tensor& out_BTHD,
                           ValueState& state, const ValueContext& context) const override {
    const auto& gates = gates_of(layer);
    if (!gates || !at_output_) return out_BTHD;
    const GateLogits logits = gates->logits(input_BTC, context);
    at::Tensor sum_BTHD;
    for (std::size_t s = 0; s < logits.logits_BTH.size(); ++s) {
      at::Tensor alpha_BTH = replaced_gates(layer, s, logits, context);
      if (!alpha_BTH.defined()) alpha_BTH = gate_activation(logits.logits_BTH[s], logits.activation);
      const at::Tensor& source_BTHD = state.carried[s];
      const at::Tensor gated = alpha_BTH.to(source_BTHD.scalar_type()).unsqueeze(-1) * source_BTHD;
      sum_BTHD = sum_BTHD.defined() ? sum_BTHD + gated : gated;
    }
    return add_over_groups(out_BTHD, sum_BTHD);
  }

  std::vector<TokenMix> token_mixes(ComputeWeights& weights) const override {
    std::vector<TokenMix> mixes;
    const bool first_only = sources_.layers() == std::vector<std::int64_t>{0};
    for (const std::optional<LayerGates>& gates : gates_) {
      mixes.emplace_back();
      if (!gates) continue;
      const std::optional<TokenMix> mix = gates->token_mix(weights);
      if (!mix || !first_only || at_output_) return {};
      mixes.back() = *mix;
    }
    return mixes;
  }

 private:
  const std::optional<LayerGates>& gates_of(std::int64_t layer) const {
    return gates_[static_cast<std::size_t>(layer)];
  }

  // The observer's gates where it replaced them; undefined where it left them, so that the pass has the same bits as
  // one without an observer.
  at::Tensor replaced_gates(std::int64_t layer, std::size_t source, const GateLogits& logits,
                            const ValueContext& context) const {
    if (!context.observer) return {};
    const at::Tensor alpha_BTH = gate_activation(logits.logits_BTH[source], logits.activation);
    const at::Tensor edited_BTH = context.observer->source_gate(layer, sources_.layers()[source], alpha_BTH);
    return edited_BTH.is_same(alpha_BTH) ? at::Tensor() : edited_BTH;
  }

  ValueSources sources_;
  bool at_output_;
  std::vector<std::optional<LayerGates>> gates_;  // empty where the path is not active
};

}  // namespace

std::unique_ptr<ValuePath> make_satformer_values(const ModelConfig& config, ParameterStore& store) {
  return std::make_unique<SatFormerValues>(config, store);
}

}  // namespace satformer
