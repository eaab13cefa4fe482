// The equation of every value path and option, against plain loops in double precision.
#include <ATen/core/grad_mode.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>
#include <gtest/gtest.h>

#include <cmath>

#include "base/error.h"
#include "base/random.h"
#include "models/test_models.h"
#include "nn/value_path.h"

namespace satformer {
namespace {

constexpr std::int64_t B = 2, T = 5, H = 2, queries = 4, D = 8, C = 32, layers = 4;

at::Tensor normal(at::IntArrayRef shape, std::uint64_t key) {
  at::Tensor t = at::zeros(shape, at::kFloat);
  const Philox random(11, key);
  for (std::int64_t i = 0; i < t.numel(); ++i) {
    float four[4];
    random.normals(static_cast<std::uint64_t>(i), four);
    t.mutable_data_ptr<float>()[i] = four[0];
  }
  return t;
}

// A value path by itself: random inputs and projections of each layer, random attention outputs.
class PathRun {
 public:
  explicit PathRun(ModelConfig c) : config(std::move(c)), store(at::Device(at::kCPU)), weights(at::kFloat) {
    config.num_hidden_layers = layers;
    config.validate();
    path = make_value_path(config, store);
    store.initialise(3);
    at::NoGradGuard no_grad;
    std::uint64_t key = 100;
    for (Parameter& p : store.list()) p.value.add_(normal(p.value.sizes(), ++key) * 0.3);
    for (std::uint64_t l = 0; l < layers; ++l) {
      x.push_back(normal({B, T, C}, 4 * l));
      v.push_back(config.projects_values(static_cast<std::int64_t>(l)) ? normal({B, T, H, D}, 4 * l + 1)
                                                                       : at::Tensor());
      k.push_back(normal({B, T, H, D}, 4 * l + 2));
      attended.push_back(normal({B, T, queries, D}, 4 * l + 3));
    }
  }

  void run(LayerObserver* observer = nullptr, const at::Tensor& valid_BT = {}) {
    at::NoGradGuard no_grad;
    ValueState state;
    mixed.clear();
    keys.clear();
    out.clear();
    const ValueContext context{weights, observer, valid_BT, nullptr, {}};
    for (std::size_t l = 0; l < layers; ++l) {
      const auto layer = static_cast<std::int64_t>(l);
      mixed.push_back(path->mix(layer, x[l], v[l], state, context));
      keys.push_back(path->mix_keys(layer, k[l], state, context));
      out.push_back(path->add_to_output(layer, x[l], attended[l], state, context));
    }
  }

  at::Tensor parameter(std::int64_t layer, const std::string& name) const {
    const Parameter* p = store.find(concat("model.layers.", layer, ".attn.value_residual_mixing.", name));
    return p ? p->value.detach() : at::Tensor();
  }

  ModelConfig config;
  ParameterStore store;
  ComputeWeights weights;
  std::unique_ptr<ValuePath> path;
  std::vector<at::Tensor> x, v, k, attended, mixed, keys, out;
};

double number(const at::Tensor& t, std::initializer_list<std::int64_t> index) {
  at::Tensor element = t;
  for (const std::int64_t i : index) element = element.select(0, i);
  return element.item<double>();
}

using Vector = std::vector<double>;

Vector row(const at::Tensor& x_BTC, std::int64_t b, std::int64_t t) {
  const at::Tensor r = x_BTC.select(0, b).select(0, t).contiguous();
  return {r.const_data_ptr<float>(), r.const_data_ptr<float>() + r.numel()};
}

Vector mean_up_to(const at::Tensor& x_BTC, std::int64_t b, std::int64_t t, const at::Tensor& valid_BT) {
  Vector sum(C, 0.0);
  double count = 0;
  for (std::int64_t i = 0; i <= t; ++i) {
    if (valid_BT.defined() && number(valid_BT, {b, i}) == 0) continue;
    const Vector r = row(x_BTC, b, i);
    for (std::size_t c = 0; c < r.size(); ++c) sum[c] += r[c];
    ++count;
  }
  for (double& s : sum) s /= count;
  return sum;
}

Vector product(const at::Tensor& weight, const Vector& x, const at::Tensor& bias) {
  Vector y;
  for (std::int64_t o = 0; o < weight.size(0); ++o) {
    double sum = bias.defined() ? number(bias, {o}) : 0;
    for (std::size_t c = 0; c < x.size(); ++c) sum += number(weight, {o, static_cast<std::int64_t>(c)}) * x[c];
    y.push_back(sum);
  }
  return y;
}

double sigmoid(double z) { return 1 / (1 + std::exp(-z)); }

// Gate function of entry h of one source's logits.
double activation(const std::string& gate, const Vector& z, std::size_t h) {
  if (gate == "relu") return std::max(0.0, z[h]);
  if (gate == "sigmoid") return sigmoid(z[h]);
  if (gate == "tanh") return std::tanh(z[h]);
  if (gate == "identity") return z[h];
  double total = 0;
  for (const double other : z) total += std::exp(other);
  const double share = std::exp(z[h]) / total * static_cast<double>(z.size());
  return gate == "softmax" ? share : share * sigmoid(z[h]);
}

// One map of a gate: its value for source s, token (b, t) and head h.
double map_gate(const PathRun& r, std::int64_t layer, const std::string& prefix, bool per_head, bool running,
                std::int64_t s, std::int64_t b, std::int64_t t, std::int64_t h, const at::Tensor& valid_BT) {
  const at::Tensor& x = r.x[static_cast<std::size_t>(layer)];
  Vector in = running ? mean_up_to(x, b, t, valid_BT) : row(x, b, t);
  if (const at::Tensor hidden = r.parameter(layer, prefix + "alpha_hidden.weight"); hidden.defined()) {
    in = product(hidden, in, {});
    for (double& z : in) z *= sigmoid(z);
  }
  const Vector all =
      product(r.parameter(layer, prefix + "alpha_proj.weight"), in, r.parameter(layer, prefix + "alpha_proj.bias"));
  const std::int64_t width = per_head ? H : 1;
  const Vector z(all.begin() + s * width, all.begin() + (s + 1) * width);
  return activation(r.config.value_residual_gate, z, per_head ? static_cast<std::size_t>(h) : 0);
}

double expected_gate(const PathRun& r, std::int64_t layer, std::int64_t s, std::int64_t b, std::int64_t t,
                     std::int64_t h, const at::Tensor& valid_BT) {
  const auto map = [&](const std::string& prefix, bool per_head, bool running) {
    return map_gate(r, layer, prefix, per_head, running, s, b, t, h, valid_BT);
  };
  const std::string& granularity = r.config.value_gate_granularity;
  if (granularity == "token_head") return map("", true, false);
  if (granularity == "token") return map("", false, false);
  if (granularity == "head") return map("", true, true);
  if (granularity == "layer") return map("", false, true);
  if (granularity == "factorised") {
    return map("layer_", false, true) * map("head_", true, true) * map("token_", false, false);
  }
  return activation(r.config.value_residual_gate, {number(r.parameter(layer, "alpha"), {s})}, 0);
}

template <class F>
void over_elements(std::int64_t heads, F&& f) {
  for (std::int64_t b = 0; b < B; ++b)
    for (std::int64_t t = 0; t < T; ++t)
      for (std::int64_t h = 0; h < heads; ++h)
        for (std::int64_t d = 0; d < D; d += 3) f(b, t, h, d);
}

void expect_satformer(PathRun& r, const at::Tensor& valid_BT) {
  r.run(nullptr, valid_BT);
  const bool output = r.config.value_place == "output";
  for (std::int64_t layer = 0; layer < layers; ++layer) {
    const auto l = static_cast<std::size_t>(layer);
    const auto sum = [&](std::int64_t b, std::int64_t t, std::int64_t h, std::int64_t d) {
      double total = 0;
      for (std::size_t s = 0; s < r.config.value_sources.size() && r.config.value_path_active(layer); ++s) {
        const at::Tensor& source = r.v[static_cast<std::size_t>(r.config.value_sources[s])];
        total +=
            expected_gate(r, layer, static_cast<std::int64_t>(s), b, t, h, valid_BT) * number(source, {b, t, h, d});
      }
      return total;
    };
    const auto is_pad = [&](std::int64_t b, std::int64_t t) {
      return valid_BT.defined() && number(valid_BT, {b, t}) == 0;
    };
    over_elements(output ? queries : H, [&](std::int64_t b, std::int64_t t, std::int64_t h, std::int64_t d) {
      if (is_pad(b, t)) return;
      const double own = number(output ? r.attended[l] : r.v[l], {b, t, h, d});
      const double expected = own + sum(b, t, output ? h / (queries / H) : h, d);
      ASSERT_NEAR(number(output ? r.out[l] : r.mixed[l], {b, t, h, d}), expected, 2e-5 * (1 + std::abs(expected)))
          << "layer " << layer << " token " << t << " head " << h;
    });
    EXPECT_TRUE((output ? r.mixed[l] : r.out[l]).equal(output ? r.v[l] : r.attended[l])) << "the other place changed";
  }
}

ModelConfig satformer_config(const std::string& granularity, const std::string& gate) {
  ModelConfig c = testing::small_config("plain", "satformer");
  c.num_hidden_layers = layers;
  c.value_gate_granularity = granularity;
  c.value_residual_gate = gate;
  return c;
}

TEST(SatFormerValues, EveryGranularityGateAndMap) {
  for (const char* granularity : {"token_head", "token", "head", "layer", "static", "factorised"}) {
    for (const char* gate : {"relu", "sigmoid", "tanh", "identity", "softmax", "softmax_sigmoid"}) {
      const bool per_head = std::string(granularity) == "token_head" || std::string(granularity) == "head";
      const bool is_static = std::string(granularity) == "static";
      if (std::string(gate).starts_with("softmax") && !per_head) continue;
      for (const std::int64_t ffn : {0, 6}) {
        if (is_static && ffn > 0) continue;
        SCOPED_TRACE(concat(granularity, " ", gate, " ", ffn));
        ModelConfig c = satformer_config(granularity, gate);
        c.value_gate_ffn = ffn;
        c.value_residual_proj_bias = !is_static;
        c.value_gate_bias_init = 0.25;
        PathRun r(c);
        expect_satformer(r, {});
      }
    }
  }
}

TEST(SatFormerValues, RunningMeansLeavePadsOut) {
  const at::Tensor valid = at::ones({B, T}, at::kBool);
  valid[0].narrow(0, 0, 2).zero_();
  valid[1].narrow(0, 2, 1).zero_();
  for (const char* granularity : {"head", "layer", "factorised"}) {
    SCOPED_TRACE(granularity);
    PathRun r(satformer_config(granularity, "sigmoid"));
    expect_satformer(r, valid);
  }
}

TEST(SatFormerValues, PoolsOfSourcesInBothPlaces) {
  for (const char* place : {"values", "output"}) {
    for (const char* granularity : {"token_head", "token", "head", "static", "factorised"}) {
      SCOPED_TRACE(concat(place, " ", granularity));
      ModelConfig c = satformer_config(granularity, "tanh");
      c.value_sources = {0, 1};
      c.value_place = place;
      PathRun r(c);
      EXPECT_FALSE(r.config.value_path_active(1));
      EXPECT_TRUE(r.config.value_path_active(2));
      expect_satformer(r, {});
    }
  }
}

TEST(SatFormerValues, ListsAndLastLayers) {
  ModelConfig c = satformer_config("token_head", "sigmoid");
  c.value_layers = {1, 3};
  PathRun listed(c);
  expect_satformer(listed, {});
  EXPECT_FALSE(listed.parameter(2, "alpha_proj.weight").defined());
  EXPECT_TRUE(listed.parameter(3, "alpha_proj.weight").defined());
  c.value_layers = {};
  c.value_residual_last_k = 1;
  PathRun last(c);
  expect_satformer(last, {});
  EXPECT_FALSE(last.parameter(2, "alpha_proj.weight").defined());
}

// Gates reach observers per token and head whatever they are shared by, and can be replaced.
TEST(SatFormerValues, ObserversSeeAndReplaceGatesOfEveryGranularity) {
  struct Closer : LayerObserver {
    at::Tensor source_gate(std::int64_t layer, std::int64_t source, const at::Tensor& alpha_BTH) override {
      EXPECT_EQ(alpha_BTH.sizes(), at::IntArrayRef({B, T, H}));
      EXPECT_NEAR(number(alpha_BTH, {1, 3, 1}), expected_gate(*run, layer, source, 1, 3, 1, {}), 1e-5);
      ++seen;
      return at::zeros_like(alpha_BTH);
    }
    const PathRun* run = nullptr;
    int seen = 0;
  };
  for (const char* granularity : {"token_head", "token", "head", "layer", "static", "factorised"}) {
    for (const char* place : {"values", "output"}) {
      SCOPED_TRACE(concat(granularity, " ", place));
      ModelConfig c = satformer_config(granularity, "sigmoid");
      c.value_sources = {0, 1};
      c.value_place = place;
      PathRun r(c);
      Closer closer;
      closer.run = &r;
      r.run(&closer);
      EXPECT_EQ(closer.seen, 4);  // two layers, two sources
      for (std::size_t l = 0; l < layers; ++l) {
        EXPECT_TRUE(r.mixed[l].equal(r.v[l])) << "closed gates leave the values";
        EXPECT_TRUE(r.out[l].equal(r.attended[l]));
      }
    }
  }
}

TEST(SatFormerValues, InitialStandardDeviations) {
  ModelConfig c = testing::small_config("plain", "satformer");
  EXPECT_EQ(c.gate_init_std(), c.initializer_range);
  c.value_gate_init_std.number = 0.5;
  EXPECT_EQ(c.gate_init_std(), 0.5);
  c.value_gate_init_std = {std::nullopt, true};
  EXPECT_NEAR(c.gate_init_std(), 0.02 * std::sqrt(768.0 / 32.0), 1e-12);
  ParameterStore store{at::Device(at::kCPU)};
  make_value_path(c, store);
  store.initialise(1);
  const at::Tensor w = store.list()[0].value.detach();
  EXPECT_NEAR(w.norm().item<double>() / std::sqrt(static_cast<double>(w.numel())), c.gate_init_std(), 0.03);
}

TEST(SatFormerValues, BiasesAndStaticGatesStartWhereTheyAreTold) {
  for (const bool is_static : {false, true}) {
    ModelConfig c = testing::small_config("plain", "satformer");
    if (is_static) c.value_gate_granularity = "static";
    c.value_residual_proj_bias = !is_static;
    c.value_gate_bias_init = 0.75;
    ParameterStore store{at::Device(at::kCPU)};
    make_value_path(c, store);
    store.initialise(1);
    int found = 0;
    for (const Parameter& p : store.list()) {
      if (!p.name.ends_with(is_static ? ".alpha" : "alpha_proj.bias")) continue;
      EXPECT_TRUE(p.value.detach().eq(0.75).all().item<bool>()) << p.name;
      ++found;
    }
    EXPECT_EQ(found, 2);
  }
}

TEST(ResFormerValues, ShareOneSoftmaxOverLayers) {
  ModelConfig c = testing::small_config("plain", "resformer");
  c.num_hidden_layers = layers;
  c.value_layers = {1, 3};
  PathRun r(c);
  r.run();
  const double scale = r.store.find("model.lambda_manager.lambda_scale")->value.item<double>();
  const at::Tensor logits = r.store.find("model.lambda_manager.lambda_logits")->value.detach();
  ASSERT_EQ(logits.numel(), layers - 1);
  EXPECT_NE(scale, static_cast<double>(layers));  // the test's own, not where it starts
  double sum = 0;
  for (std::int64_t i = 0; i < layers - 1; ++i) sum += std::exp(number(logits, {i}));
  for (std::int64_t layer = 0; layer < layers; ++layer) {
    const auto l = static_cast<std::size_t>(layer);
    const bool active = layer == 1 || layer == 3;
    EXPECT_EQ(r.parameter(layer, "lambda2").defined(), active);
    const double lambda2 = active ? r.parameter(layer, "lambda2").item<double>() : 1;
    const double lambda1 = active ? scale * std::exp(number(logits, {layer - 1})) / sum : 0;
    over_elements(H, [&](std::int64_t b, std::int64_t t, std::int64_t h, std::int64_t d) {
      const double expected = lambda1 * number(r.v[0], {b, t, h, d}) + lambda2 * number(r.v[l], {b, t, h, d});
      ASSERT_NEAR(number(r.mixed[l], {b, t, h, d}), expected, 1e-5) << "layer " << layer;
    });
  }
}

TEST(Relatives, FixedSvFormerAndNeutreno) {
  struct Case {
    const char *path, *neutreno_values;
    double v1, own, lambda;
  };
  for (const Case& test : {Case{"fixed", "fixed", 0.5, 0.5, 0}, Case{"svformer", "fixed", 1, 0, 0},
                           Case{"neutreno", "fixed", 0.5, 0.5, 0.2}, Case{"neutreno", "own", 0, 1, 0.2}}) {
    SCOPED_TRACE(concat(test.path, " ", test.neutreno_values));
    ModelConfig c = testing::small_config("plain", test.path);
    c.num_hidden_layers = layers;
    c.neutreno_values = test.neutreno_values;
    c.value_layers = {1, 3};
    PathRun r(c);
    r.run();
    EXPECT_EQ(r.store.count(), 0);
    for (std::int64_t layer = 0; layer < layers; ++layer) {
      const auto l = static_cast<std::size_t>(layer);
      const bool active = layer == 1 || layer == 3;
      EXPECT_EQ(r.v[l].defined(), !active || std::string(test.path) != "svformer");
      const auto value = [&](std::int64_t b, std::int64_t t, std::int64_t h, std::int64_t d) {
        const double own = r.v[l].defined() ? number(r.v[l], {b, t, h, d}) : 0;
        return active ? test.v1 * number(r.v[0], {b, t, h, d}) + test.own * own : own;
      };
      over_elements(H, [&](std::int64_t b, std::int64_t t, std::int64_t h, std::int64_t d) {
        ASSERT_NEAR(number(r.mixed[l], {b, t, h, d}), value(b, t, h, d), 1e-6) << "layer " << layer;
      });
      over_elements(queries, [&](std::int64_t b, std::int64_t t, std::int64_t h, std::int64_t d) {
        const std::int64_t kv = h / (queries / H);
        const double added = active ? test.lambda * (number(r.v[0], {b, t, kv, d}) - value(b, t, kv, d)) : 0;
        ASSERT_NEAR(number(r.out[l], {b, t, h, d}), number(r.attended[l], {b, t, h, d}) + added, 1e-6);
      });
    }
  }
}

TEST(Lime, RoutesAllEarlierHeads) {
  for (const bool with_keys : {true, false}) {
    ModelConfig c = testing::small_config("plain", "lime");
    c.num_hidden_layers = layers;
    c.lime_keys = with_keys;
    PathRun r(c);
    r.run();
    for (std::int64_t layer = 0; layer < layers; ++layer) {
      const auto l = static_cast<std::size_t>(layer);
      const at::Tensor router = r.parameter(layer, "router");
      EXPECT_EQ(router.defined(), layer > 0);
      const auto routed = [&](const std::vector<at::Tensor>& own, std::int64_t b, std::int64_t t, std::int64_t h,
                              std::int64_t d) {
        if (!router.defined()) return number(own[l], {b, t, h, d});
        double sum = 0;
        for (std::int64_t m = 0; m <= layer; ++m)
          for (std::int64_t j = 0; j < H; ++j)
            sum += number(router, {h, m * H + j}) * number(own[static_cast<std::size_t>(m)], {b, t, j, d});
        return sum;
      };
      over_elements(H, [&](std::int64_t b, std::int64_t t, std::int64_t h, std::int64_t d) {
        ASSERT_NEAR(number(r.mixed[l], {b, t, h, d}), routed(r.v, b, t, h, d), 1e-5);
        const double key = with_keys ? routed(r.k, b, t, h, d) : number(r.k[l], {b, t, h, d});
        ASSERT_NEAR(number(r.keys[l], {b, t, h, d}), key, 1e-5);
      });
    }
  }
}

TEST(Lime, StartsAsTheIdentity) {
  ModelConfig c = testing::small_config("plain", "lime");
  ParameterStore store{at::Device(at::kCPU)};
  make_value_path(c, store);
  store.initialise(1);
  ASSERT_EQ(store.list().size(), 2u);
  for (std::int64_t layer = 1; layer < 3; ++layer) {
    const at::Tensor router = store.list()[static_cast<std::size_t>(layer - 1)].value.detach();
    EXPECT_EQ(router.sizes(), at::IntArrayRef({2, (layer + 1) * 2}));
    EXPECT_EQ(router.sum().item<double>(), 2.0);
    for (std::int64_t h = 0; h < 2; ++h) EXPECT_EQ(number(router, {h, layer * 2 + h}), 1.0);
  }
}

}  // namespace
}  // namespace satformer
