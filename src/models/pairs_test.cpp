// Every residual routing with every value path and their options: gradients, recomputation, cached decoding, pads,
// observers, bfloat16.
#include <ATen/core/grad_mode.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "kernels/backend.h"
#include "models/test_models.h"
#include "nn/device.h"

namespace satformer {
namespace {

using testing::random_ids;
using testing::randomise;
using testing::Variant;

struct Pair {
  Variant routing, values;
};

// The four routings with every value path and its options; options of routings with the three named value paths.
std::vector<Pair> all_pairs() {
  std::vector<Pair> pairs;
  const auto named = [](const Variant& v) { return v.name == v.part; };
  for (const Variant& routing : testing::routing_variants()) {
    for (const Variant& values : testing::value_variants()) {
      const bool three = values.name == "own" || values.name == "resformer" || values.name == "satformer";
      if (named(routing) || three) pairs.push_back({routing, values});
    }
  }
  return pairs;
}

ModelConfig config_of(const Pair& pair) {
  ModelConfig c = testing::small_config(pair.routing.part, pair.values.part);
  pair.routing.set(c);
  pair.values.set(c);
  return c;
}

class Pairs : public ::testing::TestWithParam<Pair> {
 protected:
  // These models are too small to share: on a busy machine threads would wait for one another.
  static void SetUpTestSuite() {
    threads_before_ = num_threads();
    set_num_threads(1);
  }
  static void TearDownTestSuite() { set_num_threads(threads_before_); }
  void SetUp() override {
    model_ = make_model(architecture_by_name("transformer"), config_of(GetParam()), at::kCPU);
    randomise(*model_);
    ids_ = random_ids(2, 12);
    targets_ = random_ids(2, 13).narrow(1, 1, 12).contiguous();
  }
  at::Tensor loss(const ForwardOptions& options = {}) { return model_->loss(ids_, targets_, 1.0 / 24, options); }
  std::vector<at::Tensor> gradients(const ForwardOptions& options) {
    for (Parameter& p : model_->parameters().list()) p.value.mutable_grad() = at::Tensor();
    loss(options).backward();
    std::vector<at::Tensor> all;
    for (Parameter& p : model_->parameters().list()) {
      const bool missing = !p.value.grad().defined() && unread(p.name);
      all.push_back(missing ? at::zeros_like(p.value.detach()) : p.value.grad());
    }
    return all;
  }
  // SVFormer's later layers do not read MUDD's value stream, the third.
  static bool unread(const std::string& name) {
    return GetParam().values.part == "svformer" && name.find("post_da_norms.2") != std::string::npos;
  }

  static inline int threads_before_ = 1;
  std::unique_ptr<Model> model_;
  at::Tensor ids_, targets_;
};

TEST_P(Pairs, GradientsMatchDirectionalDifferences) {
  ModelConfig config = config_of(GetParam());
  if (config.value_residual_gate == "relu") config.value_residual_gate = "sigmoid";  // differences need smoothness
  model_ = make_model(architecture_by_name("transformer"), config, at::kCPU);
  randomise(*model_);
  const std::vector<at::Tensor> grads = gradients({});
  std::size_t i = 0;
  for (Parameter& p : model_->parameters().list()) {
    const at::Tensor g = grads[i++];
    ASSERT_TRUE(g.defined()) << p.name << " has no gradient";
    const double norm = g.norm().item<double>();
    ASSERT_TRUE(std::isfinite(norm)) << p.name;
    if (!unread(p.name)) {
      EXPECT_GT(norm, 0.0) << p.name << " never gets a gradient";
    }
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
  const std::int64_t slots = 2 * 12, transformer_floats = 3 * 2 * 2 * model_->config().head_dim();
  EXPECT_EQ(cache.bytes(), slots * (transformer_floats + GetParam().values.cache_floats) * 4);
  std::vector<at::Tensor> parts;
  for (const auto& [begin, count] : {std::pair{0, 5}, {5, 1}, {6, 1}, {7, 3}, {10, 1}, {11, 1}}) {
    ForwardOptions options;
    options.cache = &cache;
    parts.push_back(model_->logits(ids_.narrow(1, begin, count), options));
  }
  EXPECT_LE((at::cat(parts, 1) - full).abs().max().item<double>(), 1e-5);
}

TEST_P(Pairs, PadsChangeNothing) {
  at::NoGradGuard no_grad;
  // Row 0 without pads, row 1 behind three, row 2 before two; with a cache in two blocks and single tokens.
  const at::Tensor ids = random_ids(3, 9), mask = at::ones({3, 9}, at::kLong);
  mask[1].narrow(0, 0, 3).zero_();
  mask[2].narrow(0, 7, 2).zero_();
  ForwardOptions masked;
  masked.attention_mask_BT = mask;
  const at::Tensor full = model_->logits(ids, masked);
  KvCache cache(model_->config(), 3, 9, at::kFloat, at::kCPU);
  std::vector<at::Tensor> parts;
  for (const auto& [begin, count] : {std::pair{0, 2}, {2, 3}, {5, 1}, {6, 1}, {7, 1}, {8, 1}}) {
    ForwardOptions options;
    options.cache = &cache;
    options.attention_mask_BT = mask.narrow(1, begin, count);
    parts.push_back(model_->logits(ids.narrow(1, begin, count), options));
  }
  const at::Tensor cached = at::cat(parts, 1);
  const std::int64_t begins[] = {0, 3, 0}, counts[] = {9, 6, 7};
  for (std::int64_t row = 0; row < 3; ++row) {
    const auto tokens = [&](const at::Tensor& t) { return t.narrow(0, row, 1).narrow(1, begins[row], counts[row]); };
    const at::Tensor alone = model_->logits(tokens(ids), {});
    EXPECT_LE((tokens(full) - alone).abs().max().item<double>(), 2e-5) << "row " << row;
    EXPECT_LE((tokens(cached) - alone).abs().max().item<double>(), 2e-5) << "row " << row << " with a cache";
  }
}

TEST_P(Pairs, ACacheCutBackAndReorderedGoesOn) {
  at::NoGradGuard no_grad;
  const at::Tensor swapped = ids_.flip({0}), full = model_->logits(swapped, {});
  KvCache cache(model_->config(), 2, 12, at::kFloat, at::kCPU);
  ForwardOptions options;
  options.cache = &cache;
  model_->logits(ids_.narrow(1, 0, 9), options);
  cache.truncate(6);
  cache.select_rows(at::cat({at::ones({1}, at::kLong), at::zeros({1}, at::kLong)}));
  const at::Tensor rest = model_->logits(swapped.narrow(1, 6, 6), options);
  EXPECT_LE((rest - full.narrow(1, 6, 6)).abs().max().item<double>(), 1e-5);
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
  EXPECT_EQ(watcher.gates, GetParam().values.gates);
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

INSTANTIATE_TEST_SUITE_P(All, Pairs, ::testing::ValuesIn(all_pairs()),
                         [](const auto& pair) { return pair.param.routing.name + "__" + pair.param.values.name; });

}  // namespace
}  // namespace satformer
