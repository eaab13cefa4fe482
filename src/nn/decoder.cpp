#include <ATen/core/grad_mode.h>
#include <ATen/ops/cumsum.h>
#include <ATen/ops/embedding.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/ones.h>

#include "base/error.h"
#include "kernels/autograd.h"
#include "kernels/linear_cross_entropy/linear_cross_entropy.h"
#include "kernels/rms_norm/rms_norm.h"
#include "nn/attention_layer.h"
#include "nn/model.h"

namespace satformer {
namespace {

class Decoder : public Model {
 public:
  Decoder(const std::string& architecture, const ModelConfig& config, at::Device device)
      : architecture_(architecture), config_(config), store_(device), weights_(at::kFloat) {
    const std::int64_t V = config.vocab_size, C = config.hidden_size;
    const Init normal = Init::normal(config.initializer_range);
    embedding_ = store_.add("model.embeddings.weight", {V, C}, normal, ParamKind::embedding, "embedding");
    routing_ = make_residual_routing(config, store_);
    value_path_ = make_value_path(config, store_);
    for (std::int64_t layer = 0; layer < config.num_hidden_layers; ++layer) {
      attention_.emplace_back(config, layer, routing_->output_init_scale(), store_);
      mlp_.emplace_back(config, layer, routing_->output_init_scale(), store_);
    }
    norm_ = store_.add("model.norm.weight", {C}, Init::constant(1), ParamKind::norm, "norm");
    head_ = config.tie_word_embeddings ? embedding_
                                       : store_.add("lm_head.weight", {V, C}, normal, ParamKind::embedding, "head");
  }

  const ModelConfig& config() const override { return config_; }
  const std::string& architecture() const override { return architecture_; }
  ParameterStore& parameters() override { return store_; }
  const ParameterStore& parameters() const override { return store_; }
  void set_compute_dtype(at::ScalarType dtype) override { weights_ = ComputeWeights(dtype); }
  at::ScalarType compute_dtype() const override { return weights_.dtype(); }

  at::Tensor hidden(const at::Tensor& ids_BT, const ForwardOptions& options) override;
  at::Tensor logits(const at::Tensor& ids_BT, const ForwardOptions& options) override {
    at::Tensor h = hidden(ids_BT, options);
    const std::int64_t keep = options.logits_to_keep, T = h.size(1);
    if (keep > 0 && keep < T) h = h.narrow(1, T - keep, keep);
    return at::linear(h, weights_(head_)).to(at::kFloat);
  }
  at::Tensor loss(const at::Tensor& ids_BT, const at::Tensor& targets_BT, double scale,
                  const ForwardOptions& options) override;
  at::Tensor losses(const at::Tensor& ids_BT, const at::Tensor& targets_BT, const ForwardOptions& options,
                    at::Tensor* greedy) override {
    at::NoGradGuard no_grad;
    const at::Tensor h = hidden(ids_BT, options);
    at::Tensor loss = token_losses(h.flatten(0, 1), weights_(head_), targets_BT.flatten(), greedy);
    if (greedy) *greedy = greedy->view(targets_BT.sizes());
    return loss.view(targets_BT.sizes());
  }

 private:
  PassContext prepare_pass(const at::Tensor& ids_BT, const ForwardOptions& options);
  void run_layer(std::int64_t layer, StreamState& streams, ValueState& values, const PassContext& pass,
                 LayerObserver* observer);
  void recompute_layer(std::int64_t layer, StreamState& streams, ValueState& values, const PassContext& pass,
                       LayerObserver* observer);

  std::string architecture_;
  ModelConfig config_;
  ParameterStore store_;
  ComputeWeights weights_;
  std::unique_ptr<ResidualRouting> routing_;
  std::unique_ptr<ValuePath> value_path_;
  std::vector<AttentionLayer> attention_;
  std::vector<MlpLayer> mlp_;
  at::Tensor embedding_, norm_, head_;
  RopeTable rope_;
};

PassContext Decoder::prepare_pass(const at::Tensor& ids_BT, const ForwardOptions& options) {
  if (ids_BT.dim() != 2 || ids_BT.scalar_type() != at::kLong) {
    fail(ExitCode::internal, "token ids must be an int64 matrix [batch, time]");
  }
  const std::int64_t T = ids_BT.size(1), past = options.cache ? options.cache->length() : 0;
  if (past + T > config_.max_position_embeddings) {
    fail(ExitCode::config, "a context of ", past + T,
         " tokens is longer than the model's max_position_embeddings of ", config_.max_position_embeddings);
  }
  if (!rope_.cos_PD.defined()) {
    at::NoGradGuard no_grad;
    rope_ = make_rope_table(config_.max_position_embeddings, config_.head_dim(), config_.rope_theta, store_.device());
  }
  PassContext pass;
  pass.rope = rope_;
  pass.mask.window = config_.window_size;
  at::Tensor valid_BT;
  if (options.attention_mask_BT.defined()) {
    if (options.attention_mask_BT.sizes() != ids_BT.sizes()) {
      fail(ExitCode::internal, "the attention mask must have the shape of the token ids");
    }
    valid_BT = options.attention_mask_BT.ne(0);
    pass.query_valid_BT = valid_BT;
  }
  if (options.cache) {
    KvCache& cache = *options.cache;
    cache.begin_block(valid_BT.defined() ? valid_BT : at::ones(ids_BT.sizes(), ids_BT.options().dtype(at::kBool)));
    pass.cache = &cache;
    pass.positions_BT = cache.positions_BT();
    pass.mask.query_index_BT = cache.query_index_BT();
    pass.mask.key_valid_BS = cache.key_valid_BS();
  } else if (valid_BT.defined()) {
    pass.positions_BT = (at::cumsum(valid_BT.to(at::kLong), 1) - 1).clamp_min(0);
    pass.mask.key_valid_BS = valid_BT;
  }
  return pass;
}

void Decoder::run_layer(std::int64_t layer, StreamState& streams, ValueState& values, const PassContext& pass,
                        LayerObserver* observer) {
  const auto l = static_cast<std::size_t>(layer);
  const AttentionInput input = routing_->attention_input(layer, streams, weights_);
  const ValueContext context{weights_, observer, pass.query_valid_BT, pass.cache};
  routing_->absorb_attention(layer, streams, attention_[l].forward(input, *value_path_, values, context, pass));
  const at::Tensor mlp_input = routing_->mlp_input(layer, streams, weights_);
  routing_->absorb_mlp(layer, streams, mlp_[l].forward(mlp_input, weights_), weights_);
  if (observer) observer->block_output(layer, routing_->main_stream(streams));
}

// What a layer passes through unchanged (MUDD's and DenseFormer's history, V1) stays outside the recomputed
// operation.
void Decoder::recompute_layer(std::int64_t layer, StreamState& streams, ValueState& values, const PassContext& pass,
                              LayerObserver* observer) {
  TensorList inputs = streams.carried;
  inputs.insert(inputs.end(), values.carried.begin(), values.carried.end());
  const auto streams_in = static_cast<std::ptrdiff_t>(streams.carried.size());
  struct Layout {
    bool known = false;
    std::size_t streams = 0;             // how many of the outputs are the routing's
    std::vector<std::ptrdiff_t> source;  // index of the input that an output is, or -1: computed
  };
  const auto layout = std::make_shared<Layout>();
  const auto body = [this, layer, pass, observer, layout, streams_in](const TensorList& in) {
    StreamState state{TensorList(in.begin(), in.begin() + streams_in), {}};
    ValueState value_state{TensorList(in.begin() + streams_in, in.end()), {}};
    run_layer(layer, state, value_state, pass, layout->known ? nullptr : observer);
    TensorList all = state.carried;
    all.insert(all.end(), value_state.carried.begin(), value_state.carried.end());
    TensorList computed;
    for (std::size_t i = 0; i < all.size(); ++i) {
      if (!layout->known) {
        std::ptrdiff_t source = -1;
        for (std::size_t j = 0; j < in.size() && source < 0; ++j) {
          if (all[i].is_same(in[j])) source = static_cast<std::ptrdiff_t>(j);
        }
        layout->source.push_back(source);
      }
      if (layout->source[i] < 0) computed.push_back(all[i]);
    }
    layout->streams = state.carried.size();
    layout->known = true;
    return computed;
  };
  const TensorList computed = recompute(body, inputs);
  TensorList all;
  std::size_t next = 0;
  for (const std::ptrdiff_t source : layout->source) {
    all.push_back(source < 0 ? computed[next++] : inputs[static_cast<std::size_t>(source)]);
  }
  const auto values_begin = all.begin() + static_cast<std::ptrdiff_t>(layout->streams);
  streams.carried.assign(all.begin(), values_begin);
  values.carried.assign(values_begin, all.end());
}

at::Tensor Decoder::hidden(const at::Tensor& ids_BT, const ForwardOptions& options) {
  const PassContext pass = prepare_pass(ids_BT, options);
  StreamState streams = routing_->begin(at::embedding(embedding_, ids_BT).to(weights_.dtype()));
  ValueState values;
  for (std::int64_t layer = 0; layer < config_.num_hidden_layers; ++layer) {
    if (options.recompute_layers && at::GradMode::is_enabled()) {
      recompute_layer(layer, streams, values, pass, options.observer);
    } else {
      run_layer(layer, streams, values, pass, options.observer);
    }
  }
  if (options.cache) options.cache->end_block();
  return rms_norm(routing_->finish(streams), norm_, config_.norm_eps);
}

at::Tensor Decoder::loss(const at::Tensor& ids_BT, const at::Tensor& targets_BT, double scale,
                         const ForwardOptions& options) {
  const at::Tensor h = hidden(ids_BT, options).flatten(0, 1);
  const at::Tensor head = weights_(head_);
  const at::Tensor loss = linear_cross_entropy(h, head, targets_BT.flatten(), scale);
  if (!config_.use_l2warp || !at::GradMode::is_enabled()) return loss;
  // The value stays as it is; the gradient of each token's largest logit gains 1e-4 * logit * scale.
  const at::Tensor largest = at::linear(h, head).to(at::kFloat).amax({-1});
  const at::Tensor penalty = largest.square().sum() * (0.5e-4 * scale);
  return loss + (penalty - penalty.detach());
}

}  // namespace

std::unique_ptr<Model> make_decoder(const std::string& architecture, const ModelConfig& config, at::Device device) {
  return std::make_unique<Decoder>(architecture, config, device);
}

}  // namespace satformer
