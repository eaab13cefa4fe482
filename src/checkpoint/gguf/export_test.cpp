#include "checkpoint/gguf/export.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "checkpoint/gguf/blocks.h"
#include "io/test_folder.h"

namespace satformer {
namespace {

std::unique_ptr<Model> small_transformer(bool qk_norm, bool bias = false) {
  const Architecture& architecture = architecture_by_name("transformer");
  ModelConfig c = default_model_config(architecture);
  c.vocab_size = 40;
  c.hidden_size = 64;
  c.num_hidden_layers = 2;
  c.num_heads = 4;
  c.num_kv_heads = 2;
  c.intermediate_size = 96;
  c.max_position_embeddings = 32;
  c.qk_norm = qk_norm;
  c.qkv_bias = bias;
  c.qk_norm_eps = c.norm_eps;
  auto model = make_model(architecture, c, at::Device(at::kCPU));
  model->parameters().initialise(3);
  return model;
}

TEST(GgufModel, ComesBackAsItWas) {
  const TestFolder folder;
  for (const auto& [qk_norm, bias, name] :
       {std::tuple{false, false, "llama"}, std::tuple{true, false, "qwen3"}, std::tuple{false, true, "qwen2"}}) {
    const auto model = small_transformer(qk_norm, bias);
    EXPECT_EQ(gguf_architecture(model->config()), name);
    for (const GgufType type : {GgufType::f32, GgufType::bf16, GgufType::f16, GgufType::q8_0}) {
      const std::string path = folder / "m.gguf";
      write_gguf_model(*model, gguf_metadata(*model, "m", type), type, path);
      const auto again = read_gguf_model(path);
      EXPECT_EQ(again->config().kv_heads(), 2);
      for (const Parameter& p : model->parameters().list()) {
        const at::Tensor read = again->parameters().find(p.name)->value.detach(), was = p.value.detach();
        const double largest = was.abs().max().item<double>(), error = (read - was).abs().max().item<double>();
        // Half of the last place that each type keeps; of q8_0 also of its scale's.
        const double rounding = type == GgufType::f32 || was.dim() == 1 ? 0
                                : type == GgufType::bf16                ? 1.0 / 256
                                : type == GgufType::f16                 ? 1.0 / 2048
                                                                        : 1.0 / 254 + 1.0 / 2048;
        EXPECT_LE(error, rounding * largest) << p.name << " " << gguf_type_name(type);
      }
    }
  }
}

TEST(GgufModel, KeepsHeadsOfAnotherWidthAndScaledRotaryEmbeddings) {
  const TestFolder folder;
  for (const char* type : {"linear", "llama3"}) {
    ModelConfig c = small_transformer(false)->config();
    c.head_size = 24;
    c.rope_type = type;
    c.rope_factor = 8;
    c.rope_original_positions = 16;
    const auto model = make_model(architecture_by_name("transformer"), c, at::Device(at::kCPU));
    model->parameters().initialise(3);
    const std::string path = folder / "m.gguf";
    write_gguf_model(*model, gguf_metadata(*model, "m", GgufType::f32), GgufType::f32, path);
    const auto again = read_gguf_model(path);
    EXPECT_EQ(again->config().head_dim(), 24);
    EXPECT_EQ(again->config().rope_type, type);
    EXPECT_EQ(again->config().rope_factor, 8);
    for (const Parameter& p : model->parameters().list()) {
      EXPECT_TRUE(again->parameters().find(p.name)->value.equal(p.value)) << p.name;
    }
    const GgufFile file(path);
    const GgufTensor* factors = file.find("rope_freqs.weight");
    EXPECT_EQ(factors != nullptr, std::string(type) == "llama3");
    if (factors) {
      EXPECT_EQ(factors->shape, std::vector<std::int64_t>{12});
    }
  }
}

// Rows i of a head's halves, which turn together, are neighbours in files of the kind llama, and stay apart in
// qwen3's.
TEST(GgufModel, RowsOfHeadsLieAsTheDecoderTurnsThem) {
  const TestFolder folder;
  for (const bool qk_norm : {false, true}) {
    const auto model = small_transformer(qk_norm);
    const std::string path = folder / "m.gguf";
    write_gguf_model(*model, gguf_metadata(*model, "m", GgufType::f32), GgufType::f32, path);
    const GgufFile file(path);
    for (const auto& [theirs, ours, heads] :
         {std::tuple{"blk.1.attn_q.weight", "model.layers.1.attn.q_proj.weight", 4},
          std::tuple{"blk.1.attn_k.weight", "model.layers.1.attn.k_proj.weight", 2},
          std::tuple{"blk.1.attn_v.weight", "model.layers.1.attn.v_proj.weight", 0}}) {
      const at::Tensor written = tensor_from_gguf(*file.find(theirs)), rows = model->parameters().find(ours)->value;
      constexpr std::int64_t half = 8;
      for (std::int64_t row = 0; row < rows.size(0); ++row) {
        const std::int64_t head = row / (2 * half), within = row % (2 * half);
        const std::int64_t source = qk_norm || heads == 0 ? row : head * 2 * half + (within % 2) * half + within / 2;
        EXPECT_TRUE(written[row].equal(rows[source].detach())) << theirs << " " << row;
      }
    }
  }
}

TEST(GgufModel, WhatLlamaCppHasNotIsNamed) {
  const auto refusal = [](const auto& change) -> std::string {
    ModelConfig c = small_transformer(true)->config();
    change(c);
    try {
      gguf_architecture(c);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::checkpoint);
      return error.what();
    }
    return {};
  };
  EXPECT_NE(refusal([](ModelConfig& c) { c.value_path = "satformer"; }).find("'satformer'"), std::string::npos);
  EXPECT_NE(refusal([](ModelConfig& c) { c.residual_routing = "hyper"; }).find("'hyper'"), std::string::npos);
  EXPECT_NE(refusal([](ModelConfig& c) { c.window_size = 8; }).find("window_size 8"), std::string::npos);
  EXPECT_NE(refusal([](ModelConfig& c) { c.qk_norm_eps = 1e-3; }).find("qk_norm_eps"), std::string::npos);
  EXPECT_NE(refusal([](ModelConfig& c) { c.qkv_bias = true; }).find("qkv_bias"), std::string::npos);
  EXPECT_EQ(refusal([](ModelConfig& c) { c.use_l2warp = true; }), "");
}

}  // namespace
}  // namespace satformer
