// Hyper-Connections: n parallel streams, mixed before and after each sublayer (kernels/hyper_connection; other norms
// and mHC: hyper_weights.h).
#include <cmath>

#include "base/error.h"
#include "kernels/hyper_connection/hyper_connection.h"
#include "kernels/rms_norm/rms_norm.h"
#include "nn/routing/hyper_weights.h"
#include "nn/routing/routings.h"

namespace satformer {
namespace {

// Logits of mHC's initial weights: sigmoid(4) = 0.98 of one stream, a nearly diagonal stream mix, 2 sigmoid(0) = 1.
constexpr float open_logit = 4.0f, closed_logit = -4.0f;

// carried = {H [B, T, n, C]}; local = {alpha, beta} within a sublayer.
class HyperRouting : public ResidualRouting {
 public:
  HyperRouting(const ModelConfig& config, ParameterStore& store)
      : eps_(config.norm_eps),
        n_(config.expansion_rate),
        variant_{config.hc_norm_type, config.hc_weights == "manifold"} {
    for (std::int64_t layer = 0; layer < config.num_hidden_layers; ++layer) {
      attn_norm_.push_back(add_norm_weight(config, layer, "attn_norm", store));
      mlp_norm_.push_back(add_norm_weight(config, layer, "mlp_norm", store));
      attn_hc_.push_back(add_connection(config, concat("model.layers.", layer, ".attn_hc."), 2 * layer, store));
      mlp_hc_.push_back(add_connection(config, concat("model.layers.", layer, ".mlp_hc."), 2 * layer + 1, store));
    }
  }

  StreamState begin(const at::Tensor& e) const override {
    return {{e.unsqueeze(2).expand({e.size(0), e.size(1), n_, e.size(2)}).contiguous()}, {}};
  }
  AttentionInput attention_input(std::int64_t layer, StreamState& state, ComputeWeights& weights) const override {
    const auto l = static_cast<std::size_t>(layer);
    const at::Tensor n = rms_norm(read(attn_hc_[l], state, weights), attn_norm_[l], eps_);
    return {n, n, n};
  }
  void absorb_attention(std::int64_t, StreamState& state, const at::Tensor& output_BTC) const override {
    write(state, output_BTC);
  }
  at::Tensor mlp_input(std::int64_t layer, StreamState& state, ComputeWeights& weights) const override {
    const auto l = static_cast<std::size_t>(layer);
    return rms_norm(read(mlp_hc_[l], state, weights), mlp_norm_[l], eps_);
  }
  void absorb_mlp(std::int64_t, StreamState& state, const at::Tensor& output_BTC, ComputeWeights&) const override {
    write(state, output_BTC);
  }
  at::Tensor finish(StreamState& state) const override { return main_stream(state); }
  at::Tensor main_stream(const StreamState& state) const override { return state.carried[0].sum(2); }
  double output_init_scale() const override { return 1.0 / std::sqrt(static_cast<double>(n_)); }

 private:
  HyperConnectionParams add_connection(const ModelConfig& config, const std::string& prefix, std::int64_t k,
                                       ParameterStore& store) const {
    const std::int64_t C = config.hidden_size;
    const auto add = [&](const char* name, at::IntArrayRef shape, Init init, ParamKind kind) {
      return store.add(prefix + name, shape, std::move(init), kind, "routing");
    };
    HyperConnectionParams p;
    const bool manifold = variant_.manifold;  // static parts are logits
    p.static_beta = add("static_beta", {n_}, Init::constant(manifold ? 0 : 1), ParamKind::scalar);
    std::vector<float> alpha(static_cast<std::size_t>(n_ * (n_ + 1)),
                             manifold ? closed_logit : 0.0f);  // [e_{k mod n} | I]
    alpha[static_cast<std::size_t>((k % n_) * (n_ + 1))] = manifold ? open_logit : 1.0f;
    for (std::int64_t i = 0; i < n_; ++i) {
      alpha[static_cast<std::size_t>(i * (n_ + 1) + i + 1)] = manifold ? 0.0f : 1.0f;
    }
    p.static_alpha = add("static_alpha", {n_, n_ + 1}, Init::elements(alpha), ParamKind::scalar);
    p.use_tanh = config.use_tanh;
    if (!config.use_dynamic_hc) return p;
    const std::string& norm = variant_.norm;
    if (norm == "rms" || norm == "layer") p.norm_weight = add("norm.weight", {C}, Init::constant(1), ParamKind::norm);
    if (norm == "l2") p.norm_weight = add("norm.gamma", {C}, Init::constant(0), ParamKind::norm);
    if (norm == "layer") p.norm_bias = add("norm.bias", {C}, Init::constant(0), ParamKind::bias);
    p.dynamic_beta_proj = add("dynamic_beta_proj", {C}, Init::constant(0), ParamKind::matrix);
    p.dynamic_alpha_proj = add("dynamic_alpha_proj", {C, n_ + 1}, Init::constant(0), ParamKind::matrix);
    p.dynamic_beta_scale = add("dynamic_beta_scale", {1}, Init::constant(0.01), ParamKind::scalar);
    p.dynamic_alpha_scale = add("dynamic_alpha_scale", {1}, Init::constant(0.01), ParamKind::scalar);
    return p;
  }

  at::Tensor read(const HyperConnectionParams& params, StreamState& state, ComputeWeights& weights) const {
    if (!variant_.fused()) {
      const HyperRead result = hyper_read_variant(state.carried[0], params, variant_);
      state.local = {result.alpha, result.beta};
      return result.input_BTD;
    }
    HyperConnectionParams p = params;
    p.dynamic_alpha_proj = weights(p.dynamic_alpha_proj);
    p.dynamic_beta_proj = weights(p.dynamic_beta_proj);
    const HyperRead result = hyper_read(state.carried[0], p);
    state.local = {result.alpha, result.beta};
    state.carried[0] = result.streams_BTnD;
    return result.input_BTD;
  }
  static void write(StreamState& state, const at::Tensor& output_BTC) {
    state.carried[0] = hyper_write(state.carried[0], {{}, state.local[0], state.local[1]}, output_BTC);
    state.local.clear();
  }

  double eps_;
  std::int64_t n_;
  HyperVariant variant_;
  std::vector<at::Tensor> attn_norm_, mlp_norm_;
  std::vector<HyperConnectionParams> attn_hc_, mlp_hc_;
};

}  // namespace

std::unique_ptr<ResidualRouting> make_hyper_routing(const ModelConfig& config, ParameterStore& store) {
  return std::make_unique<HyperRouting>(config, store);
}

}  // namespace satformer
