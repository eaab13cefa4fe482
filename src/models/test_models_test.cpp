#include <ATen/core/grad_mode.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>

#include "base/random.h"
#include "models/test_models.h"

namespace satformer::testing {

ModelConfig small_config(const std::string& routing, const std::string& values) {
  ModelConfig c;
  c.vocab_size = small_vocabulary;
  c.hidden_size = 32;
  c.num_hidden_layers = 3;
  c.num_heads = 4;
  c.num_kv_heads = 2;
  c.qk_norm = true;
  c.intermediate_size = 64;
  c.max_position_embeddings = 64;
  c.tie_word_embeddings = true;
  c.residual_routing = routing;
  c.value_path = values;
  return c;
}

void randomise(Model& model) {
  at::NoGradGuard no_grad;
  model.parameters().initialise(7);
  for (Parameter& p : model.parameters().list()) {
    const Philox random(8, hash_name(p.name));
    at::Tensor noise = at::zeros_like(p.value);
    float* data = noise.mutable_data_ptr<float>();
    for (std::int64_t i = 0; i < noise.numel(); ++i) {
      float four[4];
      random.normals(static_cast<std::uint64_t>(i), four);
      data[i] = four[0] * (p.value.dim() < 2 ? 0.2f : 0.08f);
    }
    p.value.add_(noise);
    // Sums that MUDD normalises stay away from zero, where nothing is well-conditioned.
    if (p.name.ends_with(".da.static_weight")) p.value.add_(0.5);
  }
}

at::Tensor random_ids(std::int64_t B, std::int64_t T, std::int64_t vocab) {
  at::Tensor ids = at::zeros({B, T}, at::kLong);
  const Philox random(3, 1);
  for (std::int64_t i = 0; i < B * T; ++i) {
    ids.mutable_data_ptr<std::int64_t>()[i] =
        static_cast<std::int64_t>(random.bits(static_cast<std::uint64_t>(i)) % static_cast<std::uint64_t>(vocab));
  }
  return ids;
}

const std::vector<Variant>& routing_variants() {
  // Heads of 12 where width / heads is 8, and rotary frequencies scaled for a longer context.
  const auto wide_heads = [](ModelConfig& c) {
    c.head_size = 12;
    c.rope_type = "llama3";
    c.rope_factor = 4;
    c.rope_original_positions = 16;
  };
  const auto gpt2 = [](ModelConfig& c) {
    c.position_type = "learned";
    c.norm_type = "layer";
    c.mlp_type = "plain";
    c.hidden_act = "gelu_new";
    c.qkv_bias = c.linear_bias = true;
  };
  static const std::vector<Variant> list = {
      {"plain", "plain"},
      {"dense", "dense"},
      {"mudd", "mudd"},
      {"hyper", "hyper"},
      {"plain_heads", "plain", wide_heads},
      {"plain_gpt2", "plain", gpt2},
      {"mudd_heads", "mudd", wide_heads},
      {"hyper_learned", "hyper", [](ModelConfig& c) { c.position_type = "learned"; }},
      {"mudd_mlp", "mudd",
       [](ModelConfig& c) {
         c.mlp_type = "plain";
         c.hidden_act = "gelu";
         c.linear_bias = true;
       }},
      {"hyper_heads", "hyper", wide_heads},
      {"mudd_w1_sqrt", "mudd", [](ModelConfig& c) { c.mudd_w1_init = "1/sqrt(d)"; }},
      {"mudd_post_residual", "mudd", [](ModelConfig& c) { c.mudd_post_norm = "residual"; }},
      {"mudd_pre_shared", "mudd", [](ModelConfig& c) { c.mudd_pre_norm = "shared"; }},
      {"hyper_layer", "hyper", [](ModelConfig& c) { c.hc_norm_type = "layer"; }},
      {"hyper_layer_plain", "hyper", [](ModelConfig& c) { c.hc_norm_type = "layer_plain"; }},
      {"hyper_l2", "hyper", [](ModelConfig& c) { c.hc_norm_type = "l2"; }},
      {"hyper_manifold", "hyper", [](ModelConfig& c) { c.hc_weights = "manifold"; }},
      {"hyper_manifold_static", "hyper",
       [](ModelConfig& c) {
         c.hc_weights = "manifold";
         c.use_dynamic_hc = false;
       }},
  };
  return list;
}

const std::vector<Variant>& value_variants() {
  const auto granularity = [](const char* name, const char* gate) {
    return [name, gate](ModelConfig& c) {
      c.value_gate_granularity = name;
      c.value_residual_gate = gate;
    };
  };
  static const std::vector<Variant> list = {
      {"own", "own"},
      {"resformer", "resformer"},
      {"satformer", "satformer", [](ModelConfig&) {}, 2},
      {"token", "satformer", granularity("token", "tanh"), 2},
      {"head", "satformer", granularity("head", "softmax_sigmoid"), 2, 2 * 2},
      {"layer", "satformer", granularity("layer", "sigmoid"), 2, 2 * 1},
      {"static", "satformer", granularity("static", "identity"), 2},
      {"factorised", "satformer", granularity("factorised", "sigmoid"), 2, 2 * 3},
      {"ffn_bias", "satformer",
       [](ModelConfig& c) {
         c.value_gate_ffn = 5;
         c.value_residual_proj_bias = true;
         c.value_gate_bias_init = 0.5;
         c.value_residual_gate = "softmax";
       },
       2},
      {"head_ffn_bias", "satformer",
       [](ModelConfig& c) {
         c.value_gate_granularity = "head";
         c.value_gate_ffn = 5;
         c.value_residual_proj_bias = true;
       },
       2, 2 * 5},
      {"factorised_bias", "satformer",
       [](ModelConfig& c) {
         c.value_gate_granularity = "factorised";
         c.value_residual_proj_bias = true;
         c.value_residual_gate = "tanh";
         c.value_gate_init_std.automatic = true;
       },
       2, 2 * 3},
      {"pool", "satformer",
       [](ModelConfig& c) {
         c.value_sources = {0, 1};
       },
       2},
      {"pool_head_output", "satformer",
       [](ModelConfig& c) {
         c.value_sources = {0, 1};
         c.value_gate_granularity = "head";
         c.value_place = "output";
       },
       2, 4},
      {"layers", "satformer", [](ModelConfig& c) { c.value_layers = {2}; }, 1},
      {"output", "satformer", [](ModelConfig& c) { c.value_place = "output"; }, 2},
      {"fixed", "fixed"},
      {"svformer", "svformer", [](ModelConfig&) {}, 0, -2 * 2 * 8},
      {"svformer_last1", "svformer", [](ModelConfig& c) { c.value_residual_last_k = 1; }, 0, -2 * 8},
      {"neutreno", "neutreno"},
      {"neutreno_own", "neutreno",
       [](ModelConfig& c) {
         c.neutreno_values = "own";
         c.neutreno_lambda = 0.4;
       }},
      {"lime", "lime"},
      {"lime_values", "lime", [](ModelConfig& c) { c.lime_keys = false; }},
  };
  return list;
}

}  // namespace satformer::testing
