// What config.json of other programs becomes, and what is refused.
#include "checkpoint/hf/import.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/test_error.h"
#include "checkpoint/hf/export.h"
#include "io/file.h"
#include "io/test_folder.h"
#include "models/registry.h"

namespace satformer {
namespace {

class HfConfig : public ::testing::Test {
 protected:
  void write(const Json& json) const { write_file_atomic(folder_ / "config.json", json.dump()); }
  ForeignConfig read(const Json& json) const {
    write(json);
    return read_hf_config(folder_.path());
  }
  std::string refused(const Json& json, ExitCode code = ExitCode::checkpoint) const {
    write(json);
    return error_text([&] { read_hf_config(folder_.path()); }, code);
  }
  static Json llama(const Json& more = Json::object()) {
    Json json = {{"model_type", "llama"},    {"vocab_size", 100},
                 {"hidden_size", 48},        {"num_hidden_layers", 2},
                 {"num_attention_heads", 4}, {"num_key_value_heads", 2},
                 {"intermediate_size", 96},  {"max_position_embeddings", 64}};
    json.update(more);
    return json;
  }

  TestFolder folder_;
};

TEST_F(HfConfig, LlamaIsATransformer) {
  const ForeignConfig foreign =
      read(llama({{"rms_norm_eps", 1e-5}, {"rope_theta", 500000.0}, {"tie_word_embeddings", true}}));
  EXPECT_EQ(foreign.architecture, "transformer");
  EXPECT_EQ(foreign.names, ForeignConfig::Names::llama);
  const ModelConfig& c = foreign.config;
  EXPECT_EQ(c.kv_heads(), 2);
  EXPECT_EQ(c.head_dim(), 12);
  EXPECT_FALSE(c.head_size);
  EXPECT_EQ(c.ffn_size(0), 96);
  EXPECT_EQ(c.norm_eps, 1e-5);
  EXPECT_EQ(c.rope_theta, 500000.0);
  EXPECT_EQ(c.rope_type, "default");
  EXPECT_TRUE(c.tie_word_embeddings);
  EXPECT_FALSE(c.qk_norm);
  EXPECT_FALSE(c.qkv_bias);
  EXPECT_FALSE(c.window_size);
}

TEST_F(HfConfig, TypesImplyTheirParts) {
  EXPECT_TRUE(read(llama({{"model_type", "qwen2"}})).config.qkv_bias);
  EXPECT_FALSE(read(llama({{"model_type", "qwen2"}, {"sliding_window", 8}})).config.window_size);
  EXPECT_EQ(read(llama({{"model_type", "mistral"}, {"sliding_window", 8}})).config.window_size, 8);
  const ModelConfig qwen3 = read(llama({{"model_type", "qwen3"}, {"head_dim", 12}})).config;
  EXPECT_TRUE(qwen3.qk_norm);
  EXPECT_EQ(qwen3.qk_norm_eps, qwen3.norm_eps);
}

TEST_F(HfConfig, Gpt2IsATransformerOfOtherParts) {
  const ForeignConfig foreign = read({{"model_type", "gpt2"},
                                      {"n_embd", 48},
                                      {"n_layer", 2},
                                      {"n_head", 4},
                                      {"n_positions", 64},
                                      {"vocab_size", 100},
                                      {"n_inner", nullptr}});
  EXPECT_EQ(foreign.names, ForeignConfig::Names::gpt2);
  const ModelConfig& c = foreign.config;
  EXPECT_EQ(c.position_type, "learned");
  EXPECT_EQ(c.norm_type, "layer");
  EXPECT_EQ(c.mlp_type, "plain");
  EXPECT_EQ(c.hidden_act, "gelu_new");
  EXPECT_EQ(c.ffn_size(0), 192);
  EXPECT_TRUE(c.tie_word_embeddings && c.qkv_bias && c.linear_bias);
  EXPECT_EQ(c.eos_token_id, 99);
  EXPECT_EQ(hf_form(c), HfForm::own);
  EXPECT_TRUE(foreign.remarks.empty());
  Json odd = {{"model_type", "gpt2"}, {"n_embd", 60}, {"n_head", 4}, {"n_layer", 1}, {"eos_token_id", {7, 0}}};
  EXPECT_EQ(read(odd).config.head_dim(), 15);
  EXPECT_EQ(read(odd).config.eos_token_id, 7);
  ASSERT_EQ(read(odd).remarks.size(), 1u);
  EXPECT_NE(read(odd).remarks[0].find("[7,0]"), std::string::npos) << read(odd).remarks[0];
  odd["eos_token_id"] = 99'999;
  EXPECT_NE(refused(odd, ExitCode::config).find("eos_token_id 99999"), std::string::npos);
}

TEST_F(HfConfig, HeadsMayHaveAWidthOfTheirOwn) {
  const ModelConfig wide = read(llama({{"head_dim", 16}})).config;
  EXPECT_EQ(wide.head_dim(), 16);
  EXPECT_EQ(wide.heads_width(), 64);
  EXPECT_EQ(read(llama({{"model_type", "qwen3"}})).config.head_dim(), 128);  // that type's default
  const std::string odd = refused(llama({{"head_dim", 7}}), ExitCode::config);
  EXPECT_TRUE(odd.find("odd") != std::string::npos && odd.find("config.json: ") != std::string::npos) << odd;
}

TEST_F(HfConfig, ScaledRotaryEmbeddings) {
  const Json llama3 = {{"rope_type", "llama3"},
                       {"factor", 32.0},
                       {"low_freq_factor", 1.0},
                       {"high_freq_factor", 4.0},
                       {"original_max_position_embeddings", 8192}};
  Json with_theta = llama3;
  with_theta["rope_theta"] = 500000.0;
  for (const Json& json :
       {llama({{"rope_scaling", llama3}, {"rope_theta", 500000.0}}), llama({{"rope_parameters", with_theta}})}) {
    const ModelConfig c = read(json).config;
    EXPECT_EQ(c.rope_type, "llama3");
    EXPECT_EQ(c.rope_factor, 32);
    EXPECT_EQ(c.rope_original_positions, 8192);
    EXPECT_EQ(c.rope_theta, 500000.0);
  }
  EXPECT_EQ(read(llama({{"rope_scaling", {{"type", "linear"}, {"factor", 2.0}}}})).config.rope_factor, 2);
  EXPECT_EQ(read(llama({{"rope_scaling", nullptr}})).config.rope_type, "default");
  for (const char* key : {"factor", "low_freq_factor", "high_freq_factor", "original_max_position_embeddings"}) {
    Json cut = llama3;
    cut.erase(key);
    const std::string error = refused(llama({{"rope_scaling", cut}}));
    EXPECT_NE(error.find(concat("'", key, "' is missing")), std::string::npos) << error;
  }
  EXPECT_NE(refused(llama({{"rope_scaling", {{"rope_type", "yarn"}, {"factor", 2.0}}}})).find("'yarn'"),
            std::string::npos);
  refused(llama({{"rope_scaling", "llama3"}}));
  refused(llama({{"rope_scaling", {{"rope_type", "linear"}, {"factor", "two"}}}}));
  refused(llama({{"rope_scaling", {{"rope_type", "linear"}, {"factor", 0.5}}}}), ExitCode::config);
}

TEST_F(HfConfig, RefusesByName) {
  const std::vector<std::pair<Json, std::string>> cases = {
      {{{"model_type", "lama"}}, "Did you mean 'llama'"},
      {{{"model_type", "gpt2"}, {"activation_function", "tanh"}}, "gelu_new"},
      {{{"model_type", "gpt2"}, {"scale_attn_weights", false}}, "unscaled"},
      {{{"model_type", "gpt2"}, {"n_head", "12"}}, "n_head"},
      {{{"model_type", 3}}, "model_type 3: expected a text"},
      {{{"vocab_size", nullptr}}, "'vocab_size' is missing"},
      {{{"vocab_size", "many"}}, "vocab_size \"many\": expected a positive whole number"},
      {{{"num_attention_heads", 0}}, "num_attention_heads 0"},
      {{{"hidden_act", "gelu"}}, "only silu"},
      {{{"attention_bias", true}}, "output projection"},
      {{{"mlp_bias", true}}, "feed-forward"},
      {{{"tie_word_embeddings", "yes"}}, "expected true or false"},
      {{{"num_local_experts", 8}}, "experts"},
      {{{"quantization_config", {{"bits", 4}}}}, "quantised"},
      {{{"partial_rotary_factor", 0.5}}, "part of each head"},
      {{{"layer_types", {"full_attention", "sliding_attention"}}}, "full attention"},
      {{{"eos_token_id", -2}}, "eos_token_id -2"},
  };
  for (const auto& [change, text] : cases) {
    const std::string error = refused(llama(change));
    EXPECT_NE(error.find(text), std::string::npos) << error;
    EXPECT_NE(error.find("config.json"), std::string::npos) << error;
  }
  refused(Json::array());
  EXPECT_NE(refused({{"model", {{"class_name", "x"}}}}).find("no 'model_type'"), std::string::npos);
  const std::string nowhere = folder_ / "nowhere";
  error_text([&] { read_hf_config(nowhere); }, ExitCode::checkpoint);
}

// What an export says of a model is read as that model.
TEST_F(HfConfig, ExportsComeBack) {
  write_file_atomic(folder_ / "model.safetensors", "");  // a model's folder has weights
  for (const Architecture& a : architectures()) {
    for (const bool scaled : {false, true}) {
      ModelConfig c = default_model_config(a);
      c.vocab_size = 50;
      c.hidden_size = 32;
      c.num_hidden_layers = 3;
      c.num_heads = 4;
      c.intermediate_size = 64;
      if (scaled) {
        c.head_size = 12;
        c.rope_type = "llama3";
        c.rope_factor = 8;
      }
      const auto model = make_model(a, c, at::Device(at::kMeta));
      const HfForm form = hf_form(c);
      const ForeignConfig back = read(hf_config(*model, form, {1, 2}));
      EXPECT_EQ(back.architecture, a.name);
      EXPECT_EQ(back.names == ForeignConfig::Names::own, form == HfForm::own);
      EXPECT_EQ(back.config.head_dim(), c.head_dim()) << a.name;
      EXPECT_EQ(back.config.rope_type, c.rope_type) << a.name;
      EXPECT_EQ(back.config.rope_factor, c.rope_factor) << a.name;
      EXPECT_EQ(back.config.ffn_size(1), c.ffn_size(1)) << a.name;
      EXPECT_EQ(back.config.effective_value_path(), c.effective_value_path()) << a.name;
      EXPECT_EQ(back.config.residual_routing, c.residual_routing) << a.name;
    }
  }
}

}  // namespace
}  // namespace satformer
