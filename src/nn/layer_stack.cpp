#include "nn/layer_stack.h"

#include <ATen/core/grad_mode.h>

#include "base/error.h"
#include "kernels/autograd.h"

namespace satformer {

LayerStack::LayerStack(const ModelConfig& config, ParameterStore& store)
    : config_(config),
      device_(store.device()),
      routing_(make_residual_routing(config, store)),
      value_path_(make_value_path(config, store)) {
  for (std::int64_t layer = 0; layer < config.num_hidden_layers; ++layer) {
    attention_.emplace_back(config, layer, routing_->output_init_scale(), store);
    mlp_.emplace_back(config, layer, routing_->output_init_scale(), store);
  }
  norm_ = std::make_unique<Norm>(config, "model.norm", store);
}

void LayerStack::run_layer(std::int64_t layer, StreamState& streams, ValueState& values, const PassContext& pass,
                           ComputeWeights& weights, LayerObserver* observer) const {
  const auto l = static_cast<std::size_t>(layer);
  const AttentionInput input = routing_->attention_input(layer, streams, weights);
  const ValueContext context{weights, observer, pass.query_valid_BT, pass.cache, pass.document_start_BT};
  routing_->absorb_attention(layer, streams, attention_[l].forward(input, *value_path_, values, context, pass));
  const at::Tensor mlp_input = routing_->mlp_input(layer, streams, weights);
  routing_->absorb_mlp(layer, streams, mlp_[l].forward(mlp_input, weights), weights);
  if (observer) observer->block_output(layer, routing_->main_stream(streams));
}

// What a layer passes through unchanged (MUDD's and DenseFormer's history, V1) stays outside the recomputed
// operation.
void LayerStack::recompute_layer(std::int64_t layer, StreamState& streams, ValueState& values,
                                 const PassContext& pass, ComputeWeights& weights, LayerObserver* observer) const {
  TensorList inputs = streams.carried;
  inputs.insert(inputs.end(), values.carried.begin(), values.carried.end());
  const auto streams_in = static_cast<std::ptrdiff_t>(streams.carried.size());
  struct Layout {
    bool known = false;
    std::size_t streams = 0;             // how many of the outputs are the routing's
    std::vector<std::ptrdiff_t> source;  // index of the input that an output is, or -1: computed
  };
  const auto layout = std::make_shared<Layout>();
  const auto body = [this, layer, pass, &weights, observer, layout, streams_in](const TensorList& in) {
    StreamState state{TensorList(in.begin(), in.begin() + streams_in), {}};
    ValueState value_state{TensorList(in.begin() + streams_in, in.end()), {}};
    run_layer(layer, state, value_state, pass, weights, layout->known ? nullptr : observer);
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

std::optional<DecodePass> LayerStack::decode_pass(const at::Tensor& embedded_BTC, const PassContext& pass,
                                                  ComputeWeights& weights, const Options& options) const {
  const bool masked = pass.query_valid_BT.defined() || pass.document_start_BT.defined();
  if (!pass.cache || options.observer || masked || !few_rows(embedded_BTC) || !norm_->rms()) return std::nullopt;
  if (!routing_->plain_norms(0)) return std::nullopt;
  const std::vector<TokenMix> mixes = value_path_->token_mixes(weights);
  if (mixes.empty()) return std::nullopt;
  DecodePass decoding;
  for (std::size_t l = 0; l < attention_.size(); ++l) {
    const auto norms = routing_->plain_norms(static_cast<std::int64_t>(l));
    if (!norms) return std::nullopt;
    DecodeLayer& layer = decoding.layers.emplace_back();
    layer.attention_norm = norms->attention->weight();
    layer.mlp_norm = norms->mlp->weight();
    layer.mix = mixes[l];
    if (!attention_[l].describe(weights, pass, layer) || !mlp_[l].describe(weights, layer)) return std::nullopt;
  }
  decoding.x_BTC = embedded_BTC;
  decoding.final_norm = norm_->weight();
  decoding.norm_eps = config_.norm_eps;
  decoding.qk_norm_eps = config_.qk_norm_eps;
  decoding.heads = config_.num_heads;
  decoding.kv_heads = config_.kv_heads();
  decoding.head_dim = config_.head_dim();
  decoding.rope = pass.rope;
  decoding.positions_BT = pass.positions_BT;
  decoding.slots_BT = pass.mask.query_index_BT;
  decoding.key_valid_BS = pass.mask.key_valid_BS;
  decoding.window = pass.mask.window;
  if (!decode_fits(decoding)) return std::nullopt;
  return decoding;
}

at::Tensor LayerStack::forward(const at::Tensor& embedded_BTC, PassContext pass, ComputeWeights& weights,
                               const Options& options) {
  if (!rope_.cos_PD.defined()) {
    const at::NoGradGuard no_grad;
    const bool rotary = config_.position_type == "rotary";
    rope_ = !rotary ? no_rotation(config_.max_position_embeddings, config_.head_dim(), device_)
                    : make_rope_table(config_.max_position_embeddings, config_.head_dim(), config_.rope_theta,
                                      device_, config_.rope_scaling());
  }
  pass.rope = rope_;
  if (const auto decoding = decode_pass(embedded_BTC, pass, weights, options)) return decode(*decoding);
  StreamState streams = routing_->begin(embedded_BTC);
  ValueState values;
  for (std::int64_t layer = 0; layer < config_.num_hidden_layers; ++layer) {
    if (options.recompute && at::GradMode::is_enabled()) {
      recompute_layer(layer, streams, values, pass, weights, options.observer);
    } else {
      run_layer(layer, streams, values, pass, weights, options.observer);
    }
  }
  return (*norm_)(routing_->finish(streams));
}

}  // namespace satformer
