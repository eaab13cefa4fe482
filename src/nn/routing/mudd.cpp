// MUDDFormer: queries, keys, values and the residual read four streams, each a dynamic mix of all earlier states.
//   h = attn(norm Q, norm K, norm V) + R;  X_{i+1} = h + mlp(norm h)
//   dw = W2 gelu(W1 rms(X_{i+1})) + static;  streams from dw and all states (kernels/depth_aggregate)
// With mudd_post_norm "residual": R as there, but Q, K and V are sum_j dw_j pre_j(X_j) + X_{i+1}, without a norm.
#include <ATen/ops/gelu.h>

#include <cmath>

#include "base/error.h"
#include "kernels/depth_aggregate/depth_aggregate.h"
#include "kernels/rms_norm/rms_norm.h"
#include "nn/routing/routings.h"

namespace satformer {
namespace {

struct DepthModule {
  std::int64_t ways;
  at::Tensor w1, w2, static_weight;
  DepthAggregateNorms norms;  // post: one per way, or R's alone
};

// carried = {Q, K, V, R, X_0, ..., X_i} ({R, X_0, ...} after the last layer); local = {attention output}, then {h}.
class MuddRouting : public ResidualRouting {
 public:
  MuddRouting(const ModelConfig& config, ParameterStore& store)
      : eps_(config.norm_eps), last_layer_(config.num_hidden_layers - 1) {
    const bool shared = config.use_pre_post_da_norm && config.mudd_pre_norm == "shared";
    for (std::int64_t j = 0; j <= config.num_hidden_layers && shared; ++j) {
      shared_pre_norm_.push_back(store.add(concat("model.da_pre_norms.", j, ".weight"), {config.hidden_size},
                                           Init::constant(1), ParamKind::norm, "routing"));
    }
    for (std::int64_t layer = 0; layer < config.num_hidden_layers; ++layer) {
      q_norm_.push_back(add_norm_weight(config, layer, "attn_norm_q", store));
      k_norm_.push_back(add_norm_weight(config, layer, "attn_norm_k", store));
      v_norm_.push_back(config.projects_values(layer) ? add_norm_weight(config, layer, "attn_norm_v", store)
                                                      : at::Tensor());
      mlp_norm_.push_back(add_norm_weight(config, layer, "mlp_norm", store));
      depth_.push_back(add_depth_module(config, layer, store));
    }
  }

  StreamState begin(const at::Tensor& e) const override { return {{e, e, e, e, e}, {}}; }
  AttentionInput attention_input(std::int64_t layer, StreamState& state, ComputeWeights&) const override {
    const auto l = static_cast<std::size_t>(layer);
    const bool reads_v = v_norm_[l].defined();
    return {rms_norm(state.carried[0], q_norm_[l], eps_), rms_norm(state.carried[1], k_norm_[l], eps_),
            reads_v ? rms_norm(state.carried[2], v_norm_[l], eps_) : at::Tensor()};
  }
  void absorb_attention(std::int64_t, StreamState& state, const at::Tensor& output_BTC) const override {
    state.local = {output_BTC};
  }
  at::Tensor mlp_input(std::int64_t layer, StreamState& state, ComputeWeights&) const override {
    const AddNorm result =
        add_rms_norm(state.local[0], state.carried[3], mlp_norm_[static_cast<std::size_t>(layer)], eps_);
    state.local = {result.sum};
    return result.normed;
  }
  void absorb_mlp(std::int64_t layer, StreamState& state, const at::Tensor& output_BTC,
                  ComputeWeights& weights) const override {
    std::vector<at::Tensor> states(state.carried.begin() + 4, state.carried.end());
    states.push_back(state.local[0] + output_BTC);
    state.local.clear();
    state.carried = aggregate(depth_[static_cast<std::size_t>(layer)], states, weights);
    state.carried.insert(state.carried.end(), states.begin(), states.end());
  }
  at::Tensor finish(StreamState& state) const override { return state.carried[0]; }
  at::Tensor main_stream(const StreamState& state) const override { return state.carried.back(); }

 private:
  DepthModule add_depth_module(const ModelConfig& config, std::int64_t layer, ParameterStore& store) const {
    const std::string prefix = concat("model.layers.", layer, ".da.");
    const std::int64_t C = config.hidden_size, states = layer + 2;
    DepthModule m;
    m.ways = layer == last_layer_ ? 1 : config.num_ways;
    const std::int64_t outputs = m.ways * states;
    const bool norms = config.use_pre_post_da_norm;
    const double width = static_cast<double>(C),
                 w1_std = config.mudd_w1_init == "1/d" ? 1.0 / width : 1.0 / std::sqrt(width);
    m.w1 = store.add(prefix + "w1.weight", {outputs, C}, Init::normal(w1_std), ParamKind::matrix, "routing");
    m.w2 = store.add(prefix + "w2.weight", {outputs, outputs}, Init::constant(0), ParamKind::matrix, "routing");
    std::vector<float> init(static_cast<std::size_t>(outputs), 0.0f);
    for (std::int64_t c = 0; c < m.ways && !norms; ++c)
      init[static_cast<std::size_t>(c * states + states - 1)] = 1.0f;
    m.static_weight =
        store.add(prefix + "static_weight", {m.ways, states}, Init::elements(init), ParamKind::scalar, "routing");
    m.norms.eps = config.norm_eps;
    const auto states_end = static_cast<std::ptrdiff_t>(states);
    if (!shared_pre_norm_.empty())
      m.norms.pre.assign(shared_pre_norm_.begin(), shared_pre_norm_.begin() + states_end);
    for (std::int64_t j = 0; j < states && norms && shared_pre_norm_.empty(); ++j) {
      m.norms.pre.push_back(store.add(concat(prefix, "pre_da_norms.", j, ".weight"), {C}, Init::constant(1),
                                      ParamKind::norm, "routing"));
    }
    const std::int64_t first_normed = config.mudd_post_norm == "all" ? 0 : m.ways - 1;
    for (std::int64_t c = first_normed; c < m.ways && norms; ++c) {
      m.norms.post.push_back(store.add(concat(prefix, "post_da_norms.", c, ".weight"), {C}, Init::constant(1e-3),
                                       ParamKind::norm, "routing"));
    }
    return m;
  }

  std::vector<at::Tensor> aggregate(const DepthModule& m, std::vector<at::Tensor>& states,
                                    ComputeWeights& weights) const {
    const at::Tensor last = states.back();
    const std::int64_t B = last.size(0), T = last.size(1), N = static_cast<std::int64_t>(states.size());
    const at::Tensor hidden =
        row_by_row(weights.linear(rms_norm(last, {}, eps_), m.w1), [](const at::Tensor& x) { return at::gelu(x); });
    const at::Tensor dynamic = weights.linear(hidden, m.w2).view({B, T, m.ways, N});
    const at::Tensor mix = dynamic + m.static_weight;
    const auto normed = static_cast<std::int64_t>(m.norms.post.size());
    if (normed == 0 || normed == m.ways) return depth_aggregate_through(states, mix, m.norms);
    std::vector<at::Tensor> streams =
        depth_aggregate_through(states, mix.narrow(2, 0, m.ways - 1), {m.norms.pre, {}, m.norms.eps});
    for (at::Tensor& stream : streams) stream = stream + last;
    streams.push_back(depth_aggregate_through(states, mix.narrow(2, m.ways - 1, 1), m.norms)[0]);
    return streams;
  }

  double eps_;
  std::int64_t last_layer_;
  std::vector<at::Tensor> q_norm_, k_norm_, v_norm_, mlp_norm_, shared_pre_norm_;
  std::vector<DepthModule> depth_;
};

}  // namespace

std::unique_ptr<ResidualRouting> make_mudd_routing(const ModelConfig& config, ParameterStore& store) {
  return std::make_unique<MuddRouting>(config, store);
}

}  // namespace satformer
