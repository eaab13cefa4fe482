// The equations of MUDD's and hyper-connections' variants, against plain code in double precision.
#include <ATen/core/grad_mode.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include <cmath>

#include "base/error.h"
#include "base/random.h"
#include "models/test_models.h"
#include "nn/residual_routing.h"
#include "nn/routing/hyper_weights.h"

namespace satformer {
namespace {

constexpr std::int64_t B = 2, T = 3, C = 32, layers = 3;

at::Tensor normal(at::IntArrayRef shape, std::uint64_t key, double scale = 1.0) {
  at::Tensor t = at::zeros(shape, at::kFloat);
  const Philox random(17, key);
  for (std::int64_t i = 0; i < t.numel(); ++i) {
    float four[4];
    random.normals(static_cast<std::uint64_t>(i), four);
    t.mutable_data_ptr<float>()[i] = four[0];
  }
  return t * scale;
}

at::Tensor wide(const at::Tensor& t) { return t.detach().to(at::kDouble); }

at::Tensor rms(const at::Tensor& x, double eps) { return x / (x.square().mean({-1}, true) + eps).sqrt(); }

void expect_close(const at::Tensor& actual, const at::Tensor& expected, double tolerance, const std::string& what) {
  ASSERT_EQ(actual.sizes(), expected.sizes()) << what;
  EXPECT_LE((wide(actual) - expected).abs().max().item<double>(), tolerance) << what;
}

void check_mudd(const ModelConfig& config) {
  at::NoGradGuard no_grad;
  ParameterStore store{at::Device(at::kCPU)};
  const auto routing = make_residual_routing(config, store);
  store.initialise(5);
  std::uint64_t key = 0;
  for (Parameter& p : store.list()) p.value.add_(normal(p.value.sizes(), ++key, 0.2));
  const auto parameter = [&](const std::string& name) {
    const Parameter* p = store.find(name);
    EXPECT_NE(p, nullptr) << name;
    return wide(p->value);
  };
  ComputeWeights weights(at::kFloat);
  StreamState state = routing->begin(normal({B, T, C}, 1000));
  std::vector<at::Tensor> states = {wide(normal({B, T, C}, 1000))};
  for (std::int64_t layer = 0; layer < layers; ++layer) {
    const auto sublayer = static_cast<std::uint64_t>(layer) * 2;
    const at::Tensor residual = wide(state.carried[3]), attn = normal({B, T, C}, 2000 + sublayer),
                     mlp = normal({B, T, C}, 2001 + sublayer);
    routing->attention_input(layer, state, weights);
    routing->absorb_attention(layer, state, attn);
    routing->mlp_input(layer, state, weights);
    routing->absorb_mlp(layer, state, mlp, weights);
    states.push_back(residual + wide(attn) + wide(mlp));

    const std::int64_t N = layer + 2, ways = layer == layers - 1 ? 1 : 4;
    const std::string prefix = concat("model.layers.", layer, ".da.");
    const at::Tensor hidden =
        at::gelu(at::matmul(rms(states.back(), config.norm_eps), parameter(prefix + "w1.weight").t()));
    const at::Tensor mix = at::matmul(hidden, parameter(prefix + "w2.weight").t()).view({B, T, ways, N}) +
                           parameter(prefix + "static_weight");
    const bool residual_only = config.mudd_post_norm == "residual";
    for (std::int64_t c = 0; c < ways; ++c) {
      at::Tensor stream = at::zeros({B, T, C}, at::kDouble);
      for (std::int64_t j = 0; j < N; ++j) {
        const at::Tensor scale =
            parameter(config.mudd_pre_norm == "shared" ? concat("model.da_pre_norms.", j, ".weight")
                                                       : concat(prefix, "pre_da_norms.", j, ".weight"));
        stream = stream + mix.select(2, c).select(2, j).unsqueeze(-1) *
                              (rms(states[static_cast<std::size_t>(j)], config.norm_eps) * scale);
      }
      const bool is_residual = c == ways - 1;
      if (!residual_only || is_residual) {
        stream = rms(stream, config.norm_eps) * parameter(concat(prefix, "post_da_norms.", c, ".weight"));
      }
      expect_close(state.carried[static_cast<std::size_t>(c)], stream + states.back(), 2e-5,
                   concat("layer ", layer, " stream ", c));
    }
    EXPECT_EQ(store.find(prefix + "post_da_norms.0.weight") == nullptr, residual_only && ways > 1);
    EXPECT_EQ(store.find(prefix + "pre_da_norms.0.weight") == nullptr, config.mudd_pre_norm == "shared");
  }
}

TEST(MuddVariants, PostNormOnTheResidualStreamAndSharedPreNorms) {
  for (const char* post : {"all", "residual"}) {
    for (const char* pre : {"module", "shared"}) {
      SCOPED_TRACE(concat(post, " ", pre));
      ModelConfig c = testing::small_config("mudd", "own");
      c.mudd_post_norm = post;
      c.mudd_pre_norm = pre;
      check_mudd(c);
    }
  }
}

TEST(MuddVariants, InitialDeviationOfTheFirstMatrix) {
  for (const auto& [init, expected] : {std::pair{"1/d", 1.0 / 256}, {"1/sqrt(d)", 1.0 / 16}}) {
    ModelConfig c = testing::small_config("mudd", "own");
    c.hidden_size = 256;
    c.mudd_w1_init = init;
    ParameterStore store{at::Device(at::kCPU)};
    make_residual_routing(c, store);
    store.initialise(1);
    const at::Tensor w = store.find("model.layers.1.da.w1.weight")->value.detach();
    EXPECT_NEAR(w.norm().item<double>() / std::sqrt(static_cast<double>(w.numel())), expected, 0.05 * expected);
  }
}

struct Connection {
  HyperConnectionParams params;
  at::Tensor streams;
};

Connection random_connection(const std::string& norm, bool dynamic) {
  constexpr std::int64_t n = 4;
  HyperConnectionParams p;
  p.static_beta = normal({n}, 1);
  p.static_alpha = normal({n, n + 1}, 2);
  p.use_tanh = true;
  if (dynamic) {
    if (norm != "layer_plain") p.norm_weight = normal({C}, 3);
    if (norm == "layer") p.norm_bias = normal({C}, 4);
    p.dynamic_beta_proj = normal({C}, 5, 0.3);
    p.dynamic_alpha_proj = normal({C, n + 1}, 6, 0.3);
    p.dynamic_beta_scale = normal({1}, 7);
    p.dynamic_alpha_scale = normal({1}, 8);
  }
  return {p, normal({B, T, n, C}, 9)};
}

// Alpha and beta before the manifold.
std::pair<at::Tensor, at::Tensor> free_weights(const Connection& c, const std::string& norm) {
  const HyperConnectionParams& p = c.params;
  if (!p.dynamic_alpha_proj.defined()) return {wide(p.static_alpha), wide(p.static_beta)};
  at::Tensor x = wide(c.streams);
  if (norm == "layer" || norm == "layer_plain") {
    x = x - x.mean({-1}, true);
    x = x / (x.square().mean({-1}, true) + 1e-5).sqrt();
    if (norm == "layer") x = x * wide(p.norm_weight) + wide(p.norm_bias);
  } else if (norm == "rms") {
    x = rms(x, 1.1920929e-7) * wide(p.norm_weight);
  } else {
    x = x / x.square().sum({-1}, true).sqrt() * std::sqrt(static_cast<double>(C)) * (wide(p.norm_weight) + 1.0);
  }
  return {at::matmul(x, wide(p.dynamic_alpha_proj)).tanh() * wide(p.dynamic_alpha_scale) + wide(p.static_alpha),
          at::matmul(x, wide(p.dynamic_beta_proj)).tanh() * wide(p.dynamic_beta_scale) + wide(p.static_beta)};
}

TEST(HyperVariants, EveryNormFreeAndOnTheManifold) {
  for (const char* norm : {"rms", "layer", "layer_plain", "l2"}) {
    for (const bool manifold : {false, true}) {
      for (const bool dynamic : {true, false}) {
        SCOPED_TRACE(concat(norm, manifold ? " manifold" : " free", dynamic ? " dynamic" : " static"));
        const Connection c = random_connection(norm, dynamic);
        auto [alpha, beta] = free_weights(c, norm);
        if (manifold) {
          at::Tensor mix = alpha.narrow(-1, 1, 4).exp();
          for (int i = 0; i < 20; ++i) {
            mix = mix / mix.sum({-1}, true);
            mix = mix / mix.sum({-2}, true);
          }
          alpha = alpha.clone();
          alpha.narrow(-1, 1, 4).copy_(mix);
          alpha.narrow(-1, 0, 1).sigmoid_();
          beta = beta.sigmoid() * 2.0;
        }
        const HyperRead read = hyper_read_variant(c.streams, c.params, {norm, manifold});
        expect_close(read.alpha, alpha, 1e-5, "alpha");
        expect_close(read.beta, beta, 1e-5, "beta");
        expect_close(read.input_BTD, (alpha.select(-1, 0).unsqueeze(-1) * wide(c.streams)).sum({-2}), 5e-5, "input");
        if (HyperVariant{norm, manifold}.fused()) {
          const HyperRead fused = hyper_read(c.streams, c.params);
          expect_close(fused.alpha, alpha, 1e-5, "fused alpha");
          expect_close(fused.input_BTD, wide(read.input_BTD), 5e-5, "fused input");
        }
      }
    }
  }
}

TEST(HyperVariants, SinkhornIsDoublyStochasticAndTakesLargeLogits) {
  const at::Tensor mix = sinkhorn(normal({5, 4, 4}, 1), 20);
  EXPECT_LE((mix.sum({-1}) - 1.0).abs().max().item<double>(), 1e-3);
  EXPECT_LE((mix.sum({-2}) - 1.0).abs().max().item<double>(), 1e-5);
  EXPECT_GE(mix.min().item<double>(), 0.0);
  at::Tensor logits = normal({3, 4, 4}, 2, 100).set_requires_grad(true);
  const at::Tensor large = sinkhorn(logits, 20);
  large.square().sum().backward();
  EXPECT_TRUE(large.isfinite().all().item<bool>() && logits.grad().isfinite().all().item<bool>());
}

// mHC starts near a Transformer: one stream is read, streams hardly mix, the output is written to all with weight 1.
TEST(HyperVariants, TheManifoldStartsNearTheIdentity) {
  at::NoGradGuard no_grad;
  ModelConfig c = testing::small_config("hyper", "own");
  c.hc_weights = "manifold";
  ParameterStore store{at::Device(at::kCPU)};
  const auto routing = make_residual_routing(c, store);
  store.initialise(1);
  ComputeWeights weights(at::kFloat);
  const at::Tensor e = normal({B, T, C}, 1), output = normal({B, T, C}, 2);
  StreamState state = routing->begin(e);
  routing->attention_input(0, state, weights);
  routing->absorb_attention(0, state, output);
  // Equal streams stay equal under a doubly stochastic mix.
  for (std::int64_t k = 0; k < 4; ++k) {
    expect_close(state.carried[0].select(2, k), wide(e) + wide(output), 1e-4, concat("stream ", k));
  }
}

}  // namespace
}  // namespace satformer
