#include "nn/model_config.h"

#include <algorithm>
#include <cmath>
#include <functional>

#include "base/error.h"
#include "kernels/value_gate/value_gate.h"

namespace satformer {
namespace {

FieldRules at_least(double min) {
  FieldRules rules;
  rules.min = min;
  return rules;
}
FieldRules between(double min, double max) {
  FieldRules rules;
  rules.min = min;
  rules.max = max;
  return rules;
}
FieldRules positive_up_to(double max) {
  FieldRules rules = between(0, max);
  rules.open_min = true;
  return rules;
}
FieldRules one_of(std::vector<std::string> names) {
  FieldRules rules;
  rules.choices = std::move(names);
  return rules;
}
FieldRules no_effect() {
  FieldRules rules;
  rules.unused = true;
  return rules;
}

void check(bool ok, const auto&... what) {
  if (!ok) fail(ExitCode::config, what...);
}

bool ascending(const std::vector<std::int64_t>& list) {
  return std::adjacent_find(list.begin(), list.end(), std::greater_equal<>()) == list.end();
}

// Where the value path acts and what it reads.
void check_value_layers(const ModelConfig& c) {
  const std::int64_t L = c.num_hidden_layers;
  check(ascending(c.value_layers), "value_layers must be ascending, without repetition");
  check(c.value_layers.empty() || !c.value_residual_last_k,
        "value_layers and value_residual_last_k = ", c.value_residual_last_k.value_or(0),
        " both say where the value path acts; give one of them");
  if (!c.value_layers.empty()) {
    check(c.value_layers.back() < L, "value_layers names layer ", c.value_layers.back(), " of a model whose last is ",
          L - 1);
  }
  check(c.value_residual_last_k.value_or(0) <= L, "value_residual_last_k = ", c.value_residual_last_k.value_or(0),
        ", but the model has ", L, " layers");
  if (c.effective_value_path() != "satformer") return;
  check(!c.value_sources.empty(), "value_sources is empty: name at least one layer, such as [0]");
  check(ascending(c.value_sources), "value_sources must be ascending, without repetition");
  const std::int64_t last = c.value_sources.back();
  if (!c.value_layers.empty()) {
    check(last < c.value_layers.front(), "value_sources names layer ", last,
          ", which is not earlier than the first layer that uses it, ", c.value_layers.front());
  }
  if (last == 0) return;
  check(last < L - 1, "value_sources names layer ", last, ", but no layer after it exists in a model of ", L);
  if (c.value_residual_last_k) {
    check(last < L - *c.value_residual_last_k, "value_sources names layer ", last,
          ", which is not earlier than the first layer that uses it, ", L - *c.value_residual_last_k,
          " (value_residual_last_k = ", *c.value_residual_last_k, ")");
  }
}

// Gates of SATFormer values: options that would say nothing, and gates that could never learn.
void check_gates(const ModelConfig& c) {
  const std::string &granularity = c.value_gate_granularity, &gate = c.value_residual_gate;
  const bool is_static = granularity == "static";
  check(!gate.starts_with("softmax") || granularity == "token_head" || granularity == "head", "value_residual_gate '",
        gate, "' runs over the KV heads; value_gate_granularity '", granularity, "' has one gate for all of them");
  check(!is_static || c.value_gate_ffn == 0, "value_gate_ffn = ", c.value_gate_ffn,
        " has no use: value_gate_granularity 'static' has no map from the input");
  check(!is_static || !c.value_residual_proj_bias,
        "value_residual_proj_bias has no use: value_gate_granularity 'static' has no projection");
  check(is_static || c.value_residual_proj_bias || c.value_gate_bias_init == 0,
        "value_gate_bias_init = ", c.value_gate_bias_init, " needs value_residual_proj_bias");
  const bool from_zero = !is_static && c.gate_init_std() == 0;
  check(gate != "relu" || c.value_gate_bias_init > 0 || (!is_static && !from_zero), "relu gates that start at ",
        c.value_gate_bias_init,
        " for every token never get a gradient; raise value_gate_bias_init or choose another value_residual_gate");
  check(gate != "softmax" || c.kv_heads() > 1,
        "value_residual_gate 'softmax' runs over the KV heads, and over one it is always 1");
  check(!from_zero || c.value_gate_ffn == 0, "value_gate_ffn = ", c.value_gate_ffn,
        " with a start deviation of 0: two matrices of zeros never get a gradient; raise value_gate_init_std");
  const bool zero_gates = (gate == "tanh" || gate == "identity") && c.value_gate_bias_init == 0;
  check(!from_zero || granularity != "factorised" || !zero_gates, "a product of three ", gate,
        " gates that all start at 0 never gets a gradient; raise value_gate_init_std or value_gate_bias_init");
}

}  // namespace

void ModelConfig::visit(FieldVisitor& v) {
  v.field("vocab_size", &vocab_size, "Token ids of the embedding and the head", between(1, 2147483647));
  v.field("hidden_size", &hidden_size, "Width of the residual stream", between(1, 1 << 20));
  v.field("num_hidden_layers", &num_hidden_layers, "Blocks", between(1, 4096));
  v.field("num_heads", &num_heads, "Query heads", between(1, 65536));
  v.field("num_kv_heads", &num_kv_heads, "Key and value heads (null: as many as query heads)", between(1, 65536));
  v.field("head_dim", &head_size, "Width of a head (null: hidden_size / num_heads)", between(2, 65536));
  v.field("qkv_bias", &qkv_bias, "Bias on the query, key and value projections");
  v.field("qk_norm", &qk_norm, "RMS norm of queries and keys, per head");
  v.field("qk_norm_eps", &qk_norm_eps, "Its epsilon", positive_up_to(1));
  v.field("window_size", &window_size, "Keys that a query sees, itself included (null: all earlier ones)",
          between(1, 1 << 26));
  v.field("position_type", &position_type, "Rotary embeddings, or learned vectors added to the tokens'",
          one_of({"rotary", "learned"}));
  v.field("rope_theta", &rope_theta, "Base of the rotary frequencies", positive_up_to(1e12));
  v.field("rope_type", &rope_type, "Frequencies for contexts longer than first trained on: unchanged, or scaled",
          one_of({"default", "linear", "llama3"}));
  v.field("rope_factor", &rope_factor, "linear, llama3: (low) frequencies are divided by it", between(1, 1e6));
  v.field("rope_low_freq_factor", &rope_low_freq_factor,
          "llama3: frequencies of fewer turns than this in the original context are divided", positive_up_to(1e6));
  v.field("rope_high_freq_factor", &rope_high_freq_factor, "llama3: those of more turns than this stay",
          positive_up_to(1e6));
  v.field("rope_original_positions", &rope_original_positions, "llama3: the original context", between(1, 1 << 26));
  v.field("max_position_embeddings", &max_position_embeddings, "Longest context", between(1, 1 << 26));
  v.field("hidden_ratio", &hidden_ratio,
          "Feed-forward width / hidden size (times 3/2 where gated), where intermediate_size is null",
          between(1, 1024));
  v.field("intermediate_size", &intermediate_size, "Feed-forward width (null: from hidden_ratio)",
          between(1, 1 << 24));
  v.field("mlp_type", &mlp_type, "Feed-forward: gated (down(act(gate x) * up x)) or plain (down(act(up x)))",
          one_of({"gated", "plain"}));
  v.field("hidden_act", &hidden_act,
          "Activation of the feed-forward: swish (silu) where it is gated; gelu, gelu_new (tanh's form) or relu "
          "where plain",
          one_of({"swish", "silu", "gelu", "gelu_new", "relu"}));
  v.field("linear_bias", &linear_bias,
          "Bias on attention's output projection and on the matrices of a plain feed-forward");
  v.field("initializer_range", &initializer_range, "Standard deviation of initial matrices", between(0, 1e3));
  v.field("norm_type", &norm_type, "Norms before sublayers and at the end: rms, or layer (LayerNorm, with bias)",
          one_of({"rms", "layer"}));
  v.field("norm_eps", &norm_eps, "Epsilon of these norms", positive_up_to(1));
  v.field("use_cache", &use_cache, "Whether generation caches keys and values", no_effect());
  v.field("pad_token_id", &pad_token_id, "Padding id (null: none)", at_least(0));
  v.field("bos_token_id", &bos_token_id, "Begin-of-sequence id", at_least(0));
  v.field("eos_token_id", &eos_token_id, "End-of-sequence id", at_least(0));
  v.field("tie_word_embeddings", &tie_word_embeddings, "The head is the embedding");
  v.field("use_l2warp", &use_l2warp, "Pull the largest logit of each token towards zero (gradients only)");
  v.field("value_path", &value_path, "Which values attention uses",
          one_of({"own", "resformer", "satformer", "fixed", "svformer", "neutreno", "lime"}));
  v.field("use_value_residual", &use_value_residual, "false: values are the layer's own whatever value_path says");
  v.field("value_residual_last_k", &value_residual_last_k, "Only the last k layers use earlier values (null: all)",
          at_least(0));
  v.field("value_layers", &value_layers, "Only these layers use earlier values (empty: all that can)",
          between(1, 4095));
  v.field("value_residual_gate", &value_residual_gate, "SATFormer's gate function", one_of(gate_names()));
  v.field("value_residual_proj_bias", &value_residual_proj_bias, "Bias on SATFormer's gate projection");
  v.field("value_gate_granularity", &value_gate_granularity, "SATFormer: what has a gate of its own",
          one_of({"token_head", "token", "head", "layer", "static", "factorised"}));
  v.field("value_gate_ffn", &value_gate_ffn, "SATFormer: hidden size of the gate's feed-forward net (0: linear gate)",
          between(0, 1 << 20));
  v.field("value_gate_bias_init", &value_gate_bias_init,
          "SATFormer: initial bias of the gate, or of a static gate's scalar", between(-1e6, 1e6));
  v.field("value_gate_init_std", &value_gate_init_std,
          "SATFormer: initial standard deviation of gate weights (null: initializer_range; auto: 0.02 sqrt(768 / "
          "hidden_size))",
          between(0, 1e3));
  v.field("value_sources", &value_sources, "SATFormer: layers whose values are mixed in, each with its own gate",
          between(0, 4094));
  v.field("value_place", &value_place,
          "SATFormer: where gated values are added: to the values or to attention's output",
          one_of({"values", "output"}));
  v.field("value_residual_lambda2_init", &value_residual_lambda2_init,
          "ResFormer: initial weight of a layer's own values", between(-1e6, 1e6));
  v.field("neutreno_lambda", &neutreno_lambda, "NeuTRENO: weight of V1 - V' at attention's output",
          between(-1e6, 1e6));
  v.field("neutreno_values", &neutreno_values, "NeuTRENO: V' is the fixed mix 0.5 V1 + 0.5 V, or the layer's own V",
          one_of({"fixed", "own"}));
  v.field("lime_keys", &lime_keys, "LIMe: mix the keys of earlier layers too, with the values' weights");
  v.field("residual_routing", &residual_routing, "How sublayers read and write the residual stream",
          one_of({"plain", "dense", "mudd", "hyper"}));
  v.field("dwa_dilation", &dwa_dilation, "DenseFormer: average every k-th state", between(1, 4096));
  v.field("dwa_period", &dwa_period, "DenseFormer: average after every p-th block", between(1, 4096));
  v.field("num_ways", &num_ways, "MUDDFormer: streams (query, key, value, residual)", between(4, 4));
  v.field("param_realloc", &param_realloc, "MUDDFormer: feed-forward widths grow with depth");
  v.field("use_pre_post_da_norm", &use_pre_post_da_norm, "MUDDFormer: norms before and after depth aggregation");
  v.field("mudd_w1_init", &mudd_w1_init, "MUDDFormer: initial standard deviation of the first depth matrix",
          one_of({"1/d", "1/sqrt(d)"}));
  v.field("mudd_post_norm", &mudd_post_norm,
          "MUDDFormer: which streams have a norm after aggregation (with use_pre_post_da_norm)",
          one_of({"all", "residual"}));
  v.field("mudd_pre_norm", &mudd_pre_norm,
          "MUDDFormer: norms before aggregation: each module's own, or one per state (with use_pre_post_da_norm)",
          one_of({"module", "shared"}));
  v.field("expansion_rate", &expansion_rate, "HyperConnections: parallel streams", between(1, 64));
  v.field("use_dynamic_hc", &use_dynamic_hc, "HyperConnections: weights depend on the token");
  v.field("use_tanh", &use_tanh, "HyperConnections: tanh on the dynamic weights");
  v.field("hc_norm_type", &hc_norm_type, "HyperConnections: norm before the dynamic weights",
          one_of({"rms", "layer", "layer_plain", "l2"}));
  v.field("hc_weights", &hc_weights,
          "HyperConnections: free mixing weights, or on the manifold of mHC (stream mix doubly stochastic)",
          one_of({"free", "manifold"}));
  v.field("elementwise_affine", &elementwise_affine, "Norms have weights (always)", no_effect());
  v.field("fuse_norm", &fuse_norm, "Implementation choice of other programs", no_effect());
  v.field("fuse_swiglu", &fuse_swiglu, "Implementation choice of other programs", no_effect());
  v.field("fuse_cross_entropy", &fuse_cross_entropy, "Implementation choice of other programs", no_effect());
  v.field("fuse_linear_cross_entropy", &fuse_linear_cross_entropy, "Implementation choice of other programs",
          no_effect());
}

void ModelConfig::validate() const {
  check(head_size || hidden_size % num_heads == 0, "hidden_size ", hidden_size, " is not divisible by num_heads ",
        num_heads, " (head_dim gives heads another width)");
  const bool halves = position_type == "rotary" || qk_norm;  // what norms queries and keys turns them too
  const char* need = position_type == "rotary" ? "rotary embeddings need an even one" : "qk_norm needs an even one";
  check(!halves || !head_size || *head_size % 2 == 0, "head_dim ", head_dim(), " is odd; ", need);
  check(!halves || head_dim() % 2 == 0, "the head size hidden_size / num_heads = ", hidden_size, " / ", num_heads,
        " = ", head_dim(), " is odd; ", need);
  const bool swish = hidden_act == "swish" || hidden_act == "silu";
  check(swish == (mlp_type == "gated"), "hidden_act '", hidden_act, "' does not go with mlp_type '", mlp_type,
        "', but ", mlp_type == "gated" ? "swish" : "gelu, gelu_new and relu", mlp_type == "gated" ? " does" : " do");
  check(norm_type == "rms" || residual_routing == "plain", "norm_type '", norm_type,
        "' is for residual_routing 'plain' alone, not '", residual_routing, "'");
  check(rope_type == "default" || position_type == "rotary", "rope_type '", rope_type,
        "' has no use: position_type is '", position_type, "'");
  check(rope_type != "default" || rope_factor == 1, "rope_factor ", rope_factor,
        " has no use: rope_type is 'default'");
  check(rope_type != "llama3" || rope_low_freq_factor < rope_high_freq_factor, "rope_low_freq_factor ",
        rope_low_freq_factor, " must be below rope_high_freq_factor ", rope_high_freq_factor);
  check(num_heads % kv_heads() == 0, "num_heads ", num_heads, " is not divisible by num_kv_heads ", kv_heads());
  const auto id = [&](const char* name, std::int64_t value) {
    check(value < vocab_size, name, " ", value, " is outside the vocabulary of ", vocab_size);
  };
  if (pad_token_id) id("pad_token_id", *pad_token_id);
  // Of small vocabularies that have none, the defaults say nothing.
  if (eos_token_id != ModelConfig().eos_token_id) id("eos_token_id", eos_token_id);
  if (bos_token_id != ModelConfig().bos_token_id) id("bos_token_id", bos_token_id);
  check_value_layers(*this);
  if (effective_value_path() == "satformer") check_gates(*this);
  const bool no_mudd_norms = residual_routing == "mudd" && !use_pre_post_da_norm;
  check(!no_mudd_norms || mudd_post_norm == "all", "mudd_post_norm '", mudd_post_norm,
        "' chooses norms, but use_pre_post_da_norm is false");
  check(!no_mudd_norms || mudd_pre_norm == "module", "mudd_pre_norm '", mudd_pre_norm,
        "' chooses norms, but use_pre_post_da_norm is false");
}

RopeScaling ModelConfig::rope_scaling() const {
  const auto kind = rope_type == "linear"   ? RopeScaling::Kind::linear
                    : rope_type == "llama3" ? RopeScaling::Kind::llama3
                                            : RopeScaling::Kind::none;
  return {kind, rope_factor, rope_low_freq_factor, rope_high_freq_factor, rope_original_positions};
}

std::int64_t ModelConfig::ffn_size(std::int64_t layer) const {
  if (residual_routing != "mudd") {
    if (intermediate_size) return *intermediate_size;
    if (mlp_type == "plain") return hidden_size * hidden_ratio;
    const auto wanted = static_cast<std::int64_t>(static_cast<double>(hidden_size * hidden_ratio * 2) / 3.0);
    return 256 * ((wanted + 255) / 256);
  }
  const auto to_256 = [](std::int64_t size) { return std::max<std::int64_t>(256, (size + 127) / 256 * 256); };
  std::int64_t base = intermediate_size.value_or(0);
  if (!intermediate_size)
    base = to_256(static_cast<std::int64_t>(static_cast<double>(hidden_size * hidden_ratio * 2) / 3.0));
  if (!param_realloc || num_hidden_layers < 2) return base;
  const double L = static_cast<double>(num_hidden_layers), i = static_cast<double>(layer + 1);
  const double scale = (0.5 * (L - i) + 1.5 * (i - 1)) / (L - 1);
  return to_256(static_cast<std::int64_t>(std::nearbyint(scale * static_cast<double>(base))));  // half to even
}

bool ModelConfig::value_path_active(std::int64_t layer) const {
  if (effective_value_path() == "own" || layer <= value_source_layers().back()) return false;
  if (!value_layers.empty()) return std::find(value_layers.begin(), value_layers.end(), layer) != value_layers.end();
  return !value_residual_last_k || layer >= num_hidden_layers - *value_residual_last_k;
}

std::int64_t ModelConfig::active_value_layers() const {
  std::int64_t count = 0;
  for (std::int64_t layer = 0; layer < num_hidden_layers; ++layer) count += value_path_active(layer);
  return count;
}

std::vector<std::int64_t> ModelConfig::value_source_layers() const {
  return effective_value_path() == "satformer" ? value_sources : std::vector<std::int64_t>{0};
}

bool ModelConfig::projects_values(std::int64_t layer) const {
  return effective_value_path() != "svformer" || !value_path_active(layer);
}

double ModelConfig::gate_init_std() const {
  if (value_gate_init_std.automatic) return 0.02 * std::sqrt(768.0 / static_cast<double>(hidden_size));
  return value_gate_init_std.number.value_or(initializer_range);
}

std::int64_t ModelConfig::gate_outputs(bool per_head) const {
  return static_cast<std::int64_t>(value_sources.size()) * (per_head ? kv_heads() : 1);
}

std::int64_t ModelConfig::running_gate_width(std::int64_t layer) const {
  if (effective_value_path() != "satformer" || !value_path_active(layer)) return 0;
  const auto width = [&](bool per_head) { return value_gate_ffn > 0 ? value_gate_ffn : gate_outputs(per_head); };
  if (value_gate_granularity == "head") return width(true);
  if (value_gate_granularity == "layer") return width(false);
  return value_gate_granularity == "factorised" ? width(false) + width(true) : 0;
}

}  // namespace satformer
