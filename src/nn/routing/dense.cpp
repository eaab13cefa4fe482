// DenseFormer: after block i the stream becomes a learned average of the states of its dilation group.
//   x = sum_j a_ij X_j over j = (i+1) mod k, step k, up to i+1;  X_0 = embedding, X_{i+1} = raw output of block i
#include "base/error.h"
#include "kernels/dense_average/dense_average.h"
#include "kernels/rms_norm/rms_norm.h"
#include "nn/routing/routings.h"

namespace satformer {
namespace {

// carried = {x, X_0, ..., X_i}; local = {attention output} within a block.
class DenseRouting : public ResidualRouting {
 public:
  DenseRouting(const ModelConfig& config, ParameterStore& store)
      : eps_(config.norm_eps), dilation_(config.dwa_dilation) {
    for (std::int64_t layer = 0; layer < config.num_hidden_layers; ++layer) {
      attn_norm_.push_back(add_norm_weight(config, layer, "attn_norm", store));
      mlp_norm_.push_back(add_norm_weight(config, layer, "mlp_norm", store));
      at::Tensor weights;
      if ((layer + 1) % config.dwa_period == 0) {
        const std::int64_t count = (layer + 1 + dilation_) / dilation_;
        std::vector<float> init(static_cast<std::size_t>(count), 0.0f);
        init.back() = 1.0f;
        weights = store.add(concat("model.dwa_modules.alphas.", layer, ".weight"), {1, count}, Init::elements(init),
                            ParamKind::scalar, "routing");
      }
      average_.push_back(weights);
    }
  }

  StreamState begin(const at::Tensor& embedding_BTC) const override { return {{embedding_BTC, embedding_BTC}, {}}; }
  AttentionInput attention_input(std::int64_t layer, StreamState& state, ComputeWeights&) const override {
    const at::Tensor n = rms_norm(state.carried[0], attn_norm_[static_cast<std::size_t>(layer)], eps_);
    return {n, n, n};
  }
  void absorb_attention(std::int64_t, StreamState& state, const at::Tensor& output_BTC) const override {
    state.local = {output_BTC};
  }
  at::Tensor mlp_input(std::int64_t layer, StreamState& state, ComputeWeights&) const override {
    const AddNorm result =
        add_rms_norm(state.local[0], state.carried[0], mlp_norm_[static_cast<std::size_t>(layer)], eps_);
    state.carried[0] = result.sum;
    state.local.clear();
    return result.normed;
  }
  void absorb_mlp(std::int64_t layer, StreamState& state, const at::Tensor& output_BTC,
                  ComputeWeights&) const override {
    const at::Tensor block = state.carried[0] + output_BTC;
    state.carried.push_back(block);
    state.carried[0] = block;
    const at::Tensor& weights = average_[static_cast<std::size_t>(layer)];
    if (!weights.defined()) return;
    std::vector<at::Tensor> group;
    for (std::int64_t j = (layer + 1) % dilation_; j <= layer + 1; j += dilation_) {
      group.push_back(state.carried[static_cast<std::size_t>(j + 1)]);
    }
    state.carried[0] = dense_average(group, weights);
  }
  at::Tensor finish(StreamState& state) const override { return state.carried[0]; }
  at::Tensor main_stream(const StreamState& state) const override { return state.carried[0]; }

 private:
  double eps_;
  std::int64_t dilation_;
  std::vector<at::Tensor> attn_norm_, mlp_norm_, average_;
};

}  // namespace

std::unique_ptr<ResidualRouting> make_dense_routing(const ModelConfig& config, ParameterStore& store) {
  return std::make_unique<DenseRouting>(config, store);
}

}  // namespace satformer
