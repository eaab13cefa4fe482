// Shape and options of a decoder, in the keys that the SATFormer authors publish, plus `residual_routing` and
// `value_path`, which an architecture's name implies and which may be combined freely.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/config.h"
#include "kernels/qk_norm_rope/qk_norm_rope.h"

namespace satformer {

struct ModelConfig {
  std::int64_t vocab_size = 32000;
  std::int64_t hidden_size = 2048;
  std::int64_t num_hidden_layers = 24;
  std::int64_t num_heads = 32;
  std::optional<std::int64_t> num_kv_heads;
  std::optional<std::int64_t> head_size;  // "head_dim"
  bool qkv_bias = false;
  bool qk_norm = false;
  double qk_norm_eps = 1e-5;
  std::optional<std::int64_t> window_size;
  double rope_theta = 10000.0;
  std::string position_type = "rotary";  // rotary | learned
  std::string rope_type = "default";     // default | linear | llama3 (kernels/qk_norm_rope)
  double rope_factor = 1, rope_low_freq_factor = 1, rope_high_freq_factor = 4;
  std::int64_t rope_original_positions = 8192;
  std::int64_t max_position_embeddings = 2048;
  std::int64_t hidden_ratio = 4;
  std::optional<std::int64_t> intermediate_size;
  std::string mlp_type = "gated";  // gated | plain
  std::string hidden_act = "swish";
  bool linear_bias = false;
  double initializer_range = 0.02;
  std::string norm_type = "rms";  // rms | layer
  double norm_eps = 1e-6;
  bool use_cache = true;
  std::optional<std::int64_t> pad_token_id;
  std::int64_t bos_token_id = 1;
  std::int64_t eos_token_id = 2;
  bool tie_word_embeddings = false;
  bool use_l2warp = false;
  // Value path (docs/value-paths.md has the equation of each option).
  std::string value_path = "own";  // own | resformer | satformer | fixed | svformer | neutreno | lime
  bool use_value_residual = true;  // false turns the value path into "own"
  std::optional<std::int64_t> value_residual_last_k;
  std::vector<std::int64_t> value_layers;  // where the path acts; empty: wherever it can
  std::string value_residual_gate = "relu";
  bool value_residual_proj_bias = false;
  std::string value_gate_granularity = "token_head";  // token_head | token | head | layer | static | factorised
  std::int64_t value_gate_ffn = 0;
  double value_gate_bias_init = 0;
  NumberOrAuto value_gate_init_std;
  std::vector<std::int64_t> value_sources = {0};
  std::string value_place = "values";  // values | output
  double value_residual_lambda2_init = 0.5;
  double neutreno_lambda = 0.2;
  std::string neutreno_values = "fixed";  // fixed | own
  bool lime_keys = true;
  // Residual routing.
  std::string residual_routing = "plain";  // plain | dense | mudd | hyper
  std::int64_t dwa_dilation = 1, dwa_period = 1;
  std::int64_t num_ways = 4;
  bool param_realloc = true, use_pre_post_da_norm = true;
  std::string mudd_w1_init = "1/d";      // 1/d | 1/sqrt(d)
  std::string mudd_post_norm = "all";    // all | residual
  std::string mudd_pre_norm = "module";  // module | shared
  std::int64_t expansion_rate = 4;
  bool use_dynamic_hc = true, use_tanh = true;
  std::string hc_norm_type = "rms";  // rms | layer | layer_plain | l2
  std::string hc_weights = "free";   // free | manifold
  // Accepted: they choose implementations in the authors' code, not mathematics.
  bool elementwise_affine = true, fuse_norm = true, fuse_swiglu = true, fuse_cross_entropy = true,
       fuse_linear_cross_entropy = false;

  void visit(FieldVisitor& visitor);
  // Combinations that single bounds cannot see (heads that do not divide, ...): Error(config) naming both values.
  void validate() const;

  std::int64_t kv_heads() const { return num_kv_heads.value_or(num_heads); }
  std::int64_t head_dim() const { return head_size.value_or(hidden_size / num_heads); }
  std::int64_t heads_width() const { return num_heads * head_dim(); }  // of all queries
  RopeScaling rope_scaling() const;
  std::int64_t ffn_size(std::int64_t layer) const;  // with MUDDFormer's rounding and re-allocation
  std::string effective_value_path() const { return use_value_residual ? value_path : "own"; }
  // Whether the value path acts in this layer (value_residual_last_k, value_layers, value_sources).
  bool value_path_active(std::int64_t layer) const;
  std::int64_t active_value_layers() const;  // in how many it does
  // Layers whose values later layers may use, ascending: value_sources with SATFormer values, otherwise layer 0.
  std::vector<std::int64_t> value_source_layers() const;
  // Whether this layer has a value projection: SVFormer's later layers have none.
  bool projects_values(std::int64_t layer) const;
  double gate_init_std() const;
  // Outputs of a gate map that sees one token (`per_head`: one for each source and KV head, else one for each
  // source).
  std::int64_t gate_outputs(bool per_head) const;
  // Numbers per token whose running sums gates of this layer need when decoding; 0: none.
  std::int64_t running_gate_width(std::int64_t layer) const;
};

}  // namespace satformer
