// Every residual routing with every value path: gradients, recomputation, cached decoding, observers, bfloat16.
#include <ATen/core/grad_mode.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/random.h"
#include "kernels/backend.h"
#include "models/registry.h"

namespace satformer {
namespace {

struct Pair {
  std::string routing, values;
};

std::vector<Pair> all_pairs() {
  std::vector<Pair> pairs;
  for (const char* routing : {"plain", "dense", "mudd", "hyper"}) {
    for (const char* values : {"own", "resformer", "satformer"}) pairs.push_back({routing, values});
  }
  return pairs;
}

ModelConfig small_config(const Pair& pair) {
  ModelConfig c;
  c.vocab_size = 53;
  c.hidden_size = 32;
  c.num_hidden_layers = 3;
  c.num_heads = 4;
  c.num_kv_heads = 2;
  c.qk_norm = true;
  c.intermediate_size = 64;
  c.max_position_embeddings = 64;
  c.tie_word_embeddings = true;
  c.residual_routing = pair.routing;
  c.value_path = pair.values;
  return c;
}

// Zero-initialised parts would hide mistakes: every parameter is moved away from its start.
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

class Pairs : public testing::TestWithParam<Pair> {
 protected:
  void SetUp() override {
    model_ = make_model(architecture_by_name("transformer"), small_config(GetParam()), at::kCPU);
    randomise(*model_);
    ids_ = random_ids(2, 12, 53);
    targets_ = random_ids(2, 13, 53).narrow(1, 1, 12).contiguous();
  }
  at::Tensor loss(const ForwardOptions& options = {}) { return model_->loss(ids_, targets_, 1.0 / 24, options); }
  std::vector<at::Tensor> gradients(const ForwardOptions& options) {
    for (Parameter& p : model_->parameters().list()) p.value.mutable_grad() = at::Tensor();
    loss(options).backward();
    std::vector<at::Tensor> all;
    for (Parameter& p : model_->parameters().list()) all.push_back(p.value.grad());
    return all;
  }

  std::unique_ptr<Model> model_;
  at::Tensor ids_, targets_;
};

TEST_P(Pairs, GradientsMatchDirectionalDifferences) {
  ModelConfig config = small_config(GetParam());
  config.value_residual_gate = "sigmoid";  // smooth, so that differences over a finite step mean something
  model_ = make_model(architecture_by_name("transformer"), config, at::kCPU);
  randomise(*model_);
  for (const Backend backend : {Backend::reference, Backend::automatic}) {
    const BackendScope scope(backend);
    const std::vector<at::Tensor> grads = gradients({});
    std::size_t i = 0;
    for (Parameter& p : model_->parameters().list()) {
      const at::Tensor g = grads[i++];
      ASSERT_TRUE(g.defined()) << p.name << " has no gradient";
      const double norm = g.norm().item<double>();
      ASSERT_TRUE(std::isfinite(norm)) << p.name;
      EXPECT_GT(norm, 0.0) << p.name << " never gets a gradient";
      if (norm < 1e-3) continue;  // differences of fp32 losses say nothing about smaller ones
      at::NoGradGuard no_grad;
      const at::Tensor start = p.value.detach().clone(), direction = g / norm;
      const double h = std::min(0.01, 2e-3 / norm);  // a change of the loss well above its rounding
      const auto loss_at = [&](double distance) {
        p.value.copy_(start + direction * distance);
        return loss().item<double>();
      };
      // Fourth-order central difference along the gradient.
      const double slope = (8 * (loss_at(h) - loss_at(-h)) - (loss_at(2 * h) - loss_at(-2 * h))) / (12 * h);
      p.value.copy_(start);
      EXPECT_NEAR(slope, norm, 0.01 * norm + 3e-4) << p.name;
    }
  }
}

TEST_P(Pairs, RecomputationGivesTheSameGradients) {
  const std::vector<at::Tensor> plain = gradients({});
  ForwardOptions options;
  options.recompute_layers = true;
  const std::vector<at::Tensor> recomputed = gradients(options);
  for (std::size_t i = 0; i < plain.size(); ++i) {
    EXPECT_LE((plain[i] - recomputed[i]).abs().max().item<double>(), 1e-6) << model_->parameters().list()[i].name;
  }
}

TEST_P(Pairs, CachedDecodingEqualsTheFullPass) {
  at::NoGradGuard no_grad;
  const at::Tensor full = model_->logits(ids_, {});
  KvCache cache(model_->config(), 2, 12, at::kFloat, at::kCPU);
  EXPECT_EQ(cache.bytes(), 2 * 3 * 2 * 12 * 2 * 8 * 4) << "more than a Transformer's cache";
  std::vector<at::Tensor> parts;
  for (const auto& [begin, count] : {std::pair{0, 5}, {5, 1}, {6, 1}, {7, 3}, {10, 1}, {11, 1}}) {
    ForwardOptions options;
    options.cache = &cache;
    parts.push_back(model_->logits(ids_.narrow(1, begin, count), options));
  }
  EXPECT_LE((at::cat(parts, 1) - full).abs().max().item<double>(), 1e-5);
}

TEST_P(Pairs, AWatchingObserverChangesNoBit) {
  struct Watcher : LayerObserver {
    at::Tensor gate(std::int64_t, const at::Tensor& alpha) override {
      ++gates;
      return alpha;
    }
    at::Tensor values(std::int64_t, const at::Tensor&, const at::Tensor& mixed) override {
      ++mixes;
      return mixed;
    }
    void block_output(std::int64_t, const at::Tensor&) override { ++blocks; }
    int gates = 0, mixes = 0, blocks = 0;
  } watcher;
  at::NoGradGuard no_grad;
  ForwardOptions options;
  options.observer = &watcher;
  EXPECT_TRUE(model_->logits(ids_, options).equal(model_->logits(ids_, {})));
  EXPECT_EQ(watcher.gates, GetParam().values == "satformer" ? 2 : 0);
  EXPECT_EQ(watcher.mixes, 3);
  EXPECT_EQ(watcher.blocks, 3);
}

TEST_P(Pairs, Bfloat16StaysNearFloat32) {
  const double fp32 = loss().item<double>();
  for (const Backend backend : {Backend::reference, Backend::automatic}) {
    const BackendScope scope(backend);
    model_->set_compute_dtype(at::kBFloat16);
    const std::vector<at::Tensor> grads = gradients({});
    for (const at::Tensor& g : grads) {
      ASSERT_EQ(g.scalar_type(), at::kFloat);
      ASSERT_TRUE(std::isfinite(g.sum().item<double>()));
    }
    EXPECT_NEAR(loss().item<double>(), fp32, 0.05);
    model_->set_compute_dtype(at::kFloat);
  }
}

TEST_P(Pairs, FusedAndReferenceKernelsAgree) {
  std::vector<at::Tensor> reference, fused;
  {
    const BackendScope scope(Backend::reference);
    reference = gradients({});
  }
  fused = gradients({});
  for (std::size_t i = 0; i < fused.size(); ++i) {
    const double size = std::max(1.0, reference[i].abs().max().item<double>());
    EXPECT_LE((fused[i] - reference[i]).abs().max().item<double>(), 1e-5 * size)
        << model_->parameters().list()[i].name;
  }
}

INSTANTIATE_TEST_SUITE_P(All, Pairs, testing::ValuesIn(all_pairs()),
                         [](const auto& pair) { return pair.param.routing + "_" + pair.param.values; });

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
  const auto model = make_model(architecture_by_name("satformer"), small_config({"plain", "satformer"}), at::kCPU);
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
  const auto model = make_model(architecture_by_name("satformer"), small_config({"plain", "satformer"}), at::kCPU);
  model->parameters().initialise(1);
  EXPECT_NO_THROW(model->logits(random_ids(1, 64, 53), {}));
  try {
    model->logits(random_ids(1, 65, 53), {});
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::config);
    EXPECT_NE(std::string(error.what()).find("65"), std::string::npos);
    EXPECT_NE(std::string(error.what()).find("64"), std::string::npos);
  }
}

TEST(Decoder, L2WarpChangesGradientsOnly) {
  ModelConfig c = small_config({"plain", "own"});
  const auto plain = make_model(architecture_by_name("transformer"), c, at::kCPU);
  c.use_l2warp = true;
  const auto warped = make_model(architecture_by_name("transformer"), c, at::kCPU);
  randomise(*plain);
  randomise(*warped);
  const at::Tensor ids = random_ids(2, 8, 53);
  const at::Tensor a = plain->loss(ids, ids, 1.0 / 16, {}), b = warped->loss(ids, ids, 1.0 / 16, {});
  EXPECT_FLOAT_EQ(a.item<float>(), b.item<float>());
  a.backward();
  b.backward();
  const auto grad = [](Model& m) { return m.parameters().find("model.norm.weight")->value.grad(); };
  EXPECT_GT((grad(*plain) - grad(*warped)).abs().max().item<double>(), 0.0);
}

}  // namespace
}  // namespace satformer
