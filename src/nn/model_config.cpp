#include "nn/model_config.h"

#include <algorithm>
#include <cmath>

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
FieldRules positive() {
  FieldRules rules;
  rules.min = 0;
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

}  // namespace

void ModelConfig::visit(FieldVisitor& v) {
  v.field("vocab_size", &vocab_size, "Token ids of the embedding and the head", between(1, 2147483647));
  v.field("hidden_size", &hidden_size, "Width of the residual stream", between(1, 1 << 20));
  v.field("num_hidden_layers", &num_hidden_layers, "Blocks", between(1, 4096));
  v.field("num_heads", &num_heads, "Query heads", between(1, 65536));
  v.field("num_kv_heads", &num_kv_heads, "Key and value heads (null: as many as query heads)", between(1, 65536));
  v.field("qkv_bias", &qkv_bias, "Bias on the query, key and value projections");
  v.field("qk_norm", &qk_norm, "RMS norm of queries and keys, per head");
  v.field("qk_norm_eps", &qk_norm_eps, "Its epsilon", positive());
  v.field("window_size", &window_size, "Keys that a query sees, itself included (null: all earlier ones)",
          at_least(1));
  v.field("rope_theta", &rope_theta, "Base of the rotary frequencies", positive());
  v.field("max_position_embeddings", &max_position_embeddings, "Longest context", between(1, 1 << 26));
  v.field("hidden_ratio", &hidden_ratio,
          "Feed-forward width / hidden size, times 3/2, where intermediate_size is null", between(1, 1024));
  v.field("intermediate_size", &intermediate_size, "Feed-forward width (null: from hidden_ratio)",
          between(1, 1 << 24));
  v.field("hidden_act", &hidden_act, "Activation of the gated feed-forward", one_of({"swish", "silu"}));
  v.field("initializer_range", &initializer_range, "Standard deviation of initial matrices", at_least(0));
  v.field("norm_eps", &norm_eps, "Epsilon of the RMS norms", positive());
  v.field("use_cache", &use_cache, "Whether generation caches keys and values", no_effect());
  v.field("pad_token_id", &pad_token_id, "Padding id (null: none)", at_least(0));
  v.field("bos_token_id", &bos_token_id, "Begin-of-sequence id", at_least(0));
  v.field("eos_token_id", &eos_token_id, "End-of-sequence id", at_least(0));
  v.field("tie_word_embeddings", &tie_word_embeddings, "The head is the embedding");
  v.field("use_l2warp", &use_l2warp, "Pull the largest logit of each token towards zero (gradients only)");
  v.field("value_path", &value_path, "Which values attention uses", one_of({"own", "resformer", "satformer"}));
  v.field("use_value_residual", &use_value_residual, "false: values are the layer's own whatever value_path says");
  v.field("value_residual_last_k", &value_residual_last_k, "Only the last k layers use layer 0's values (null: all)",
          at_least(0));
  v.field("value_residual_gate", &value_residual_gate, "SATFormer's gate function", one_of(gate_names()));
  v.field("value_residual_proj_bias", &value_residual_proj_bias, "Bias on SATFormer's gate projection");
  v.field("value_residual_lambda2_init", &value_residual_lambda2_init,
          "ResFormer: initial weight of a layer's own values", between(-1e6, 1e6));
  v.field("residual_routing", &residual_routing, "How sublayers read and write the residual stream",
          one_of({"plain", "dense", "mudd", "hyper"}));
  v.field("dwa_dilation", &dwa_dilation, "DenseFormer: average every k-th state", between(1, 4096));
  v.field("dwa_period", &dwa_period, "DenseFormer: average after every p-th block", between(1, 4096));
  v.field("num_ways", &num_ways, "MUDDFormer: streams (query, key, value, residual)", between(4, 4));
  v.field("param_realloc", &param_realloc, "MUDDFormer: feed-forward widths grow with depth");
  v.field("use_pre_post_da_norm", &use_pre_post_da_norm, "MUDDFormer: norms before and after depth aggregation");
  v.field("expansion_rate", &expansion_rate, "HyperConnections: parallel streams", between(1, 64));
  v.field("use_dynamic_hc", &use_dynamic_hc, "HyperConnections: weights depend on the token");
  v.field("use_tanh", &use_tanh, "HyperConnections: tanh on the dynamic weights");
  v.field("hc_norm_type", &hc_norm_type, "HyperConnections: norm before the dynamic weights",
          one_of({"rms", "layer"}));
  v.field("elementwise_affine", &elementwise_affine, "Norms have weights (always)", no_effect());
  v.field("fuse_norm", &fuse_norm, "Implementation choice of other programs", no_effect());
  v.field("fuse_swiglu", &fuse_swiglu, "Implementation choice of other programs", no_effect());
  v.field("fuse_cross_entropy", &fuse_cross_entropy, "Implementation choice of other programs", no_effect());
  v.field("fuse_linear_cross_entropy", &fuse_linear_cross_entropy, "Implementation choice of other programs",
          no_effect());
}

void ModelConfig::validate() const {
  const auto check = [](bool ok, const auto&... what) {
    if (!ok) fail(ExitCode::config, what...);
  };
  check(hidden_size % num_heads == 0, "hidden_size ", hidden_size, " is not divisible by num_heads ", num_heads);
  check(head_dim() % 2 == 0, "the head size hidden_size / num_heads = ", hidden_size, " / ", num_heads, " = ",
        head_dim(), " is odd; rotary embeddings need an even one");
  check(num_heads % kv_heads() == 0, "num_heads ", num_heads, " is not divisible by num_kv_heads ", kv_heads());
  const auto id = [&](const char* name, std::int64_t value) {
    check(value < vocab_size, name, " ", value, " is outside the vocabulary of ", vocab_size);
  };
  if (pad_token_id) id("pad_token_id", *pad_token_id);
}

std::int64_t ModelConfig::ffn_size(std::int64_t layer) const {
  if (residual_routing != "mudd") {
    if (intermediate_size) return *intermediate_size;
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
  if (effective_value_path() == "own" || layer == 0) return false;
  return !value_residual_last_k || layer >= num_hidden_layers - *value_residual_last_k;
}

}  // namespace satformer
