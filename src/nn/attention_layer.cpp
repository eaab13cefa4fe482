#include "nn/attention_layer.h"

#include <ATen/ops/gelu.h>
#include <ATen/ops/relu.h>
#include <ATen/ops/zeros.h>

#include "base/error.h"
#include "kernels/swiglu/swiglu.h"
#include "nn/values/sources.h"

namespace satformer {

AttentionLayer::AttentionLayer(const ModelConfig& config, std::int64_t layer, double output_init_scale,
                               ParameterStore& store)
    : layer_(layer),
      num_heads_(config.num_heads),
      kv_heads_(config.kv_heads()),
      head_dim_(config.head_dim()),
      rotary_(config.position_type == "rotary"),
      qk_norm_eps_(config.qk_norm_eps) {
  const std::string prefix = concat("model.layers.", layer, ".attn.");
  const std::int64_t C = config.hidden_size, kv = kv_heads_ * head_dim_;
  const double std_dev = config.initializer_range;
  const auto projection = [&](const char* name, std::int64_t out, std::int64_t in, double scale) {
    return store.add(prefix + name + ".weight", {out, in}, Init::normal(std_dev * scale), ParamKind::matrix,
                     "attention");
  };
  const auto input_projection = [&](const char* name, std::int64_t out, at::Tensor& weight, at::Tensor& bias) {
    weight = projection(name, out, C, 1);
    if (config.qkv_bias) {
      bias = store.add(prefix + name + ".bias", {out}, Init::constant(0), ParamKind::bias, "attention");
    }
  };
  input_projection("q_proj", config.heads_width(), q_weight_, q_bias_);
  input_projection("k_proj", kv, k_weight_, k_bias_);
  if (config.projects_values(layer)) input_projection("v_proj", kv, v_weight_, v_bias_);
  o_weight_ = projection("o_proj", C, config.heads_width(), output_init_scale);
  if (config.linear_bias) {
    o_bias_ = store.add(prefix + "o_proj.bias", {C}, Init::constant(0), ParamKind::bias, "attention");
  }
  if (config.qk_norm) {
    q_norm_weight_ = store.add(prefix + "q_norm.weight", {head_dim_}, Init::constant(1), ParamKind::norm, "norm");
    k_norm_weight_ = store.add(prefix + "k_norm.weight", {head_dim_}, Init::constant(1), ParamKind::norm, "norm");
  }
}

at::Tensor AttentionLayer::forward(const AttentionInput& input, const ValuePath& value_path, ValueState& values,
                                   const ValueContext& context, const PassContext& pass) const {
  ComputeWeights& w = context.weights;
  const std::int64_t B = input.q.size(0), T = input.q.size(1);
  at::Tensor q_BTHD, k_BTHD, v_BTHD, value_input = input.v;
  std::vector<LinearWeight> projections = {w.linear_weight(q_weight_, q_bias_), w.linear_weight(k_weight_, k_bias_)};
  if (v_weight_.defined()) projections.push_back(w.linear_weight(v_weight_, v_bias_));
  if (input.k.is_same(input.q) && (!v_weight_.defined() || input.v.is_same(input.q))) {
    at::Tensor x = input.q;
    const TensorList results = linear_each_through(x, projections);
    if (value_input.is_same(input.q)) value_input = x;
    q_BTHD = results[0];
    k_BTHD = results[1];
    if (v_weight_.defined()) v_BTHD = results[2];
  } else {
    q_BTHD = linear(input.q, projections[0]);
    k_BTHD = linear(input.k, projections[1]);
    if (v_weight_.defined()) v_BTHD = linear(input.v, projections[2]);
  }
  q_BTHD = q_BTHD.view({B, T, num_heads_, head_dim_});
  k_BTHD = k_BTHD.view({B, T, kv_heads_, head_dim_});
  if (v_weight_.defined()) v_BTHD = v_BTHD.view({B, T, kv_heads_, head_dim_});
  v_BTHD = value_path.mix(layer_, value_input, v_BTHD, values, context);
  k_BTHD = value_path.mix_keys(layer_, k_BTHD, values, context);
  if (rotary_ || q_norm_weight_.defined()) {
    q_BTHD = qk_norm_rope(q_BTHD, q_norm_weight_, qk_norm_eps_, pass.rope, pass.positions_BT);
    k_BTHD = qk_norm_rope(k_BTHD, k_norm_weight_, qk_norm_eps_, pass.rope, pass.positions_BT);
  }
  if (pass.cache) std::tie(k_BTHD, v_BTHD) = pass.cache->append(layer_, k_BTHD, v_BTHD);
  at::Tensor out_BTHD = attention(q_BTHD, k_BTHD, v_BTHD, pass.mask);
  out_BTHD = value_path.add_to_output(layer_, value_input, out_BTHD, values, context);
  const auto project = [&](at::Tensor heads_BTHD, const at::Tensor& bias) {
    const auto without_pads = [&](const at::Tensor& x) {
      if (!pass.query_valid_BT.defined()) return x;
      at::Tensor pad = pass.query_valid_BT.logical_not().unsqueeze(-1);
      return x.masked_fill(x.dim() == 4 ? pad.unsqueeze(-1) : pad, 0.0);
    };
    const at::Tensor y = w.linear(without_pads(heads_BTHD).reshape({B, T, num_heads_ * head_dim_}), o_weight_, bias);
    return bias.defined() ? without_pads(y) : y;
  };
  const at::Tensor output_BTC = project(out_BTHD, o_bias_);
  if (context.observer) {
    AttentionView view{output_BTC, {}, {}};
    if (!pass.cache) {
      view.attend = [&](const at::Tensor& v) { return project(attention(q_BTHD, k_BTHD, v, pass.mask), o_bias_); };
    }
    view.project = [&](const at::Tensor& v) {
      return project(add_over_groups(at::zeros(out_BTHD.sizes(), v.options()), v), {});
    };
    context.observer->attention(layer_, view);
  }
  return output_BTC;
}

bool AttentionLayer::describe(ComputeWeights& w, const PassContext& pass, DecodeLayer& layer) const {
  if (!rotary_ || !v_weight_.defined()) return false;
  layer.q = w.linear_weight(q_weight_, q_bias_);
  layer.k = w.linear_weight(k_weight_, k_bias_);
  layer.v = w.linear_weight(v_weight_, v_bias_);
  layer.o = w.linear_weight(o_weight_, o_bias_);
  layer.q_norm = q_norm_weight_;
  layer.k_norm = k_norm_weight_;
  std::tie(layer.keys, layer.values) = pass.cache->filled(layer_);
  return true;
}

MlpLayer::MlpLayer(const ModelConfig& config, std::int64_t layer, double output_init_scale, ParameterStore& store) {
  const std::string prefix = concat("model.layers.", layer, ".mlp.");
  const std::int64_t C = config.hidden_size, F = config.ffn_size(layer);
  const Init init = Init::normal(config.initializer_range);
  if (config.mlp_type == "gated") {
    gate_weight_ = store.add(prefix + "gate_proj.weight", {F, C}, init, ParamKind::matrix, "mlp");
  }
  activation_ = config.hidden_act;
  up_weight_ = store.add(prefix + "up_proj.weight", {F, C}, init, ParamKind::matrix, "mlp");
  down_weight_ = store.add(prefix + "down_proj.weight", {C, F},
                           Init::normal(config.initializer_range * output_init_scale), ParamKind::matrix, "mlp");
  if (config.mlp_type == "plain" && config.linear_bias) {
    up_bias_ = store.add(prefix + "up_proj.bias", {F}, Init::constant(0), ParamKind::bias, "mlp");
    down_bias_ = store.add(prefix + "down_proj.bias", {C}, Init::constant(0), ParamKind::bias, "mlp");
  }
}

at::Tensor MlpLayer::forward(const at::Tensor& input_BTC, ComputeWeights& w) const {
  if (!gate_weight_.defined()) {
    const at::Tensor up = w.linear(input_BTC, up_weight_, up_bias_);
    const at::Tensor active = row_by_row(up, [&](const at::Tensor& x) {
      if (activation_ == "relu") return at::relu(x);
      return at::gelu(x, activation_ == "gelu_new" ? "tanh" : "none");
    });
    return w.linear(active, down_weight_, down_bias_);
  }
  if (!w.is_packed(gate_weight_) && !few_rows(input_BTC)) {
    return gated_mlp(input_BTC, w(gate_weight_), w(up_weight_), w(down_weight_));
  }
  const LinearWeight first[] = {w.linear_weight(gate_weight_), w.linear_weight(up_weight_)};
  const TensorList gate_up = linear_each(input_BTC, first);
  return w.linear(swiglu(gate_up[0], gate_up[1]), down_weight_);
}

bool MlpLayer::describe(ComputeWeights& w, DecodeLayer& layer) const {
  if (!gate_weight_.defined()) return false;
  layer.gate = w.linear_weight(gate_weight_);
  layer.up = w.linear_weight(up_weight_);
  layer.down = w.linear_weight(down_weight_);
  return true;
}

}  // namespace satformer
