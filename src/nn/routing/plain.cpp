// One residual stream: x = x + sublayer(norm(x)).
#include "nn/norm.h"
#include "nn/routing/routings.h"

namespace satformer {
namespace {

// carried = {x} or {x, pending}: the output of the last sublayer is added by the norm that reads it next.
class PlainRouting : public ResidualRouting {
 public:
  PlainRouting(const ModelConfig& config, ParameterStore& store) {
    for (std::int64_t layer = 0; layer < config.num_hidden_layers; ++layer) {
      attn_norm_.emplace_back(config, layer_name(layer, "attn_norm"), store);
      mlp_norm_.emplace_back(config, layer_name(layer, "mlp_norm"), store);
    }
  }

  StreamState begin(const at::Tensor& embedding_BTC) const override { return {{embedding_BTC}, {}}; }
  AttentionInput attention_input(std::int64_t layer, StreamState& state, ComputeWeights&) const override {
    const at::Tensor n = read(state, attn_norm_[static_cast<std::size_t>(layer)]);
    return {n, n, n};
  }
  void absorb_attention(std::int64_t, StreamState& state, const at::Tensor& output_BTC) const override {
    state.carried.push_back(output_BTC);
  }
  at::Tensor mlp_input(std::int64_t layer, StreamState& state, ComputeWeights&) const override {
    return read(state, mlp_norm_[static_cast<std::size_t>(layer)]);
  }
  void absorb_mlp(std::int64_t, StreamState& state, const at::Tensor& output_BTC, ComputeWeights&) const override {
    state.carried.push_back(output_BTC);
  }
  std::optional<PlainNorms> plain_norms(std::int64_t layer) const override {
    const auto l = static_cast<std::size_t>(layer);
    return PlainNorms{&attn_norm_[l], &mlp_norm_[l]};
  }
  at::Tensor finish(StreamState& state) const override { return main_stream(state); }
  at::Tensor main_stream(const StreamState& state) const override {
    return state.carried.size() > 1 ? state.carried[0] + state.carried[1] : state.carried[0];
  }

 private:
  at::Tensor read(StreamState& state, const Norm& norm) const {
    if (state.carried.size() == 1) return norm(state.carried[0]);
    const AddNorm result = norm.add(state.carried[1], state.carried[0]);
    state.carried = {result.sum};
    return result.normed;
  }

  std::vector<Norm> attn_norm_, mlp_norm_;
};

}  // namespace

std::unique_ptr<ResidualRouting> make_plain_routing(const ModelConfig& config, ParameterStore& store) {
  return std::make_unique<PlainRouting>(config, store);
}

}  // namespace satformer
