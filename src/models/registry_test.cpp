// The named architectures, and what holds for every decoder.
#include "models/registry.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "models/test_models.h"

namespace satformer {
namespace {

using testing::random_ids;
using testing::randomise;
using testing::small_config;

TEST(Registry, NamesAndNearestNames) {
  EXPECT_EQ(architecture_by_name("SATFormerForCausalLM").name, "satformer");
  try {
    architecture_by_name("SATFormersForCausalLM");
    FAIL();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("'SATFormerForCausalLM'"), std::string::npos) << error.what();
  }
}

TEST(Registry, LayerZeroOwnsNoGate) {
  const auto model = make_model(architecture_by_name("satformer"), small_config("plain", "satformer"), at::kCPU);
  EXPECT_EQ(model->parameters().find("model.layers.0.attn.value_residual_mixing.alpha_proj.weight"), nullptr);
  EXPECT_NE(model->parameters().find("model.layers.1.attn.value_residual_mixing.alpha_proj.weight"), nullptr);
}

// Parameter counts of the recipe's shapes (millions), from the authors' code.
TEST(Registry, ParameterCountsOfTheRecipe) {
  struct Row {
    std::int64_t d, layers, heads, ffn;
    double millions[6];
  };
  const Row rows[] = {{768, 11, 12, 3072, {128.404, 128.404, 128.496, 128.404, 128.729, 128.523}},
                      {1024, 18, 16, 4096, {334.798, 334.798, 335.077, 334.798, 335.850, 335.057}},
                      {1536, 19, 24, 6144, {766.440, 766.440, 767.104, 766.441, 768.164, 766.850}}};
  for (const Row& row : rows) {
    std::size_t i = 0;
    for (const Architecture& a : architectures()) {
      ModelConfig c = default_model_config(a);
      c.hidden_size = row.d;
      c.num_hidden_layers = row.layers;
      c.num_heads = row.heads;
      c.intermediate_size = row.ffn;
      c.qk_norm = true;
      c.tie_word_embeddings = true;
      c.max_position_embeddings = 4096;
      const auto model = make_model(a, c, at::Device(at::kMeta));
      EXPECT_NEAR(static_cast<double>(model->parameters().count()) / 1e6, row.millions[i++], 6e-4) << a.name << row.d;
    }
  }
}

TEST(Decoder, ContextLimitNamesBothNumbers) {
  const auto model = make_model(architecture_by_name("satformer"), small_config("plain", "satformer"), at::kCPU);
  model->parameters().initialise(1);
  EXPECT_NO_THROW(model->logits(random_ids(1, 64), {}));
  try {
    model->logits(random_ids(1, 65), {});
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::config);
    EXPECT_NE(std::string(error.what()).find("65"), std::string::npos);
    EXPECT_NE(std::string(error.what()).find("64"), std::string::npos);
  }
}

TEST(Decoder, L2WarpChangesGradientsOnly) {
  ModelConfig c = small_config("plain", "own");
  const auto plain = make_model(architecture_by_name("transformer"), c, at::kCPU);
  c.use_l2warp = true;
  const auto warped = make_model(architecture_by_name("transformer"), c, at::kCPU);
  randomise(*plain);
  randomise(*warped);
  const at::Tensor ids = random_ids(2, 8);
  const at::Tensor a = plain->loss(ids, ids, 1.0 / 16, {}), b = warped->loss(ids, ids, 1.0 / 16, {});
  EXPECT_FLOAT_EQ(a.item<float>(), b.item<float>());
  a.backward();
  b.backward();
  const auto grad = [](Model& m) { return m.parameters().find("model.norm.weight")->value.grad(); };
  EXPECT_GT((grad(*plain) - grad(*warped)).abs().max().item<double>(), 0.0);
}

}  // namespace
}  // namespace satformer
