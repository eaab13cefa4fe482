// What options of value paths and routings cost in parameters, which combinations are refused, which keys are unused.
#include <gtest/gtest.h>

#include <algorithm>

#include "base/error.h"
#include "models/test_models.h"

namespace satformer {
namespace {

using testing::small_config;

// Refused with a message that holds each of `parts`.
void expect_refused(const std::string& values, const std::function<void(ModelConfig&)>& set,
                    const std::vector<std::string>& parts) {
  ModelConfig c = small_config("plain", values);
  set(c);
  try {
    c.validate();
    ADD_FAILURE() << "accepted; expected: " << parts[0];
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::config);
    for (const std::string& part : parts) {
      EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what() << "\n  lacks " << part;
    }
  }
}

TEST(ValueOptions, CombinationsThatMeanNothingAreRefused) {
  using C = ModelConfig;
  expect_refused("satformer",
                 [](C& c) {
                   c.value_layers = {1};
                   c.value_residual_last_k = 2;
                 },
                 {"value_layers", "value_residual_last_k = 2"});
  expect_refused("resformer", [](C& c) { c.value_residual_last_k = 4; },
                 {"value_residual_last_k = 4", "has 3 layers"});
  expect_refused("resformer", [](C& c) { c.value_layers = {2, 1}; }, {"ascending"});
  expect_refused("satformer", [](C& c) { c.value_layers = {1, 3}; }, {"names layer 3", "last is 2"});
  expect_refused("satformer", [](C& c) { c.value_sources = {}; }, {"value_sources is empty"});
  expect_refused("satformer", [](C& c) { c.value_sources = {1, 1}; }, {"ascending"});
  expect_refused("satformer", [](C& c) { c.value_sources = {0, 2}; }, {"layer 2", "no layer after it"});
  expect_refused("satformer",
                 [](C& c) {
                   c.value_sources = {0, 1};
                   c.value_layers = {1, 2};
                 },
                 {"names layer 1", "not earlier than the first layer that uses it, 1"});
  expect_refused("satformer",
                 [](C& c) {
                   c.value_sources = {0, 1};
                   c.value_residual_last_k = 2;
                 },
                 {"names layer 1", "uses it, 1", "value_residual_last_k = 2"});
  for (const char* granularity : {"token", "layer", "static", "factorised"}) {
    expect_refused("satformer",
                   [&](C& c) {
                     c.value_gate_granularity = granularity;
                     c.value_residual_gate = "softmax";
                   },
                   {"'softmax' runs over the KV heads", granularity});
  }
  const auto with_static = [](const std::function<void(C&)>& set) {
    return [set](C& c) {
      c.value_gate_granularity = "static";
      c.value_residual_gate = "identity";
      set(c);
    };
  };
  expect_refused("satformer", with_static([](C& c) { c.value_gate_ffn = 4; }), {"value_gate_ffn = 4"});
  expect_refused("satformer", with_static([](C& c) { c.value_residual_proj_bias = true; }), {"no projection"});
  expect_refused("satformer", with_static([](C& c) { c.value_residual_gate = "relu"; }), {"never get a gradient"});
  expect_refused("satformer", [](C& c) { c.value_gate_init_std.number = 0; }, {"never get a gradient"});
  expect_refused("satformer", [](C& c) { c.value_gate_bias_init = 1; }, {"needs value_residual_proj_bias"});
  expect_refused("satformer",
                 [](C& c) {
                   c.value_residual_gate = "softmax";
                   c.num_kv_heads = 1;
                 },
                 {"over one it is always 1"});
  expect_refused("satformer",
                 [](C& c) {
                   c.value_residual_gate = "sigmoid";
                   c.value_gate_ffn = 8;
                   c.value_gate_init_std.number = 0;
                 },
                 {"matrices of zeros"});
  for (const char* gate : {"identity", "tanh"}) {
    expect_refused("satformer",
                   [gate](C& c) {
                     c.value_residual_gate = gate;
                     c.value_gate_granularity = "factorised";
                     c.initializer_range = 0;
                   },
                   {"a product of three", gate});
  }
  expect_refused("own",
                 [](C& c) {
                   c.residual_routing = "mudd";
                   c.use_pre_post_da_norm = false;
                   c.mudd_post_norm = "residual";
                 },
                 {"mudd_post_norm 'residual'", "use_pre_post_da_norm"});
}

TEST(ValueOptions, EveryVariantIsAccepted) {
  for (const testing::Variant& routing : testing::routing_variants()) {
    for (const testing::Variant& values : testing::value_variants()) {
      ModelConfig c = small_config(routing.part, values.part);
      routing.set(c);
      values.set(c);
      EXPECT_NO_THROW(c.validate()) << routing.name << " " << values.name;
    }
  }
}

std::int64_t extra_parameters(const std::string& values, const std::function<void(ModelConfig&)>& set) {
  ModelConfig c = small_config("plain", values);
  set(c);
  const auto count = [](const ModelConfig& config) {
    return make_model(architecture_by_name("transformer"), config, at::Device(at::kMeta))->parameters().count();
  };
  return count(c) - count(small_config("plain", "own"));
}

// Width 32, two KV heads of 8, two layers after the first.
TEST(ValueOptions, Parameters) {
  using C = ModelConfig;
  const auto granularity = [](const char* name) {
    return [name](C& c) {
      c.value_gate_granularity = name;
      c.value_residual_gate = "identity";
    };
  };
  EXPECT_EQ(extra_parameters("satformer", [](C&) {}), 2 * 2 * 32);
  EXPECT_EQ(extra_parameters("satformer", granularity("token")), 2 * 32);
  EXPECT_EQ(extra_parameters("satformer", granularity("head")), 2 * 2 * 32);
  EXPECT_EQ(extra_parameters("satformer", granularity("layer")), 2 * 32);
  EXPECT_EQ(extra_parameters("satformer", granularity("static")), 2);
  EXPECT_EQ(extra_parameters("satformer", granularity("factorised")), 2 * 4 * 32);
  EXPECT_EQ(extra_parameters("satformer", [](C& c) { c.value_gate_ffn = 5; }), 2 * (5 * 32 + 2 * 5));
  EXPECT_EQ(extra_parameters("satformer", [](C& c) { c.value_sources = {0, 1}; }), 1 * 4 * 32);
  EXPECT_EQ(extra_parameters("satformer", [](C& c) { c.value_layers = {2}; }), 2 * 32);
  EXPECT_EQ(extra_parameters("satformer", [](C& c) { c.value_place = "output"; }), 2 * 2 * 32);
  EXPECT_EQ(extra_parameters("fixed", [](C&) {}), 0);
  EXPECT_EQ(extra_parameters("neutreno", [](C&) {}), 0);
  EXPECT_EQ(extra_parameters("svformer", [](C&) {}), -2 * 16 * 32);
  EXPECT_EQ(extra_parameters("svformer", [](C& c) { c.value_residual_last_k = 1; }), -16 * 32);
  EXPECT_EQ(extra_parameters("svformer", [](C& c) { c.qkv_bias = true; }) -
                extra_parameters("own", [](C& c) { c.qkv_bias = true; }),
            -2 * 16 * 32 - 2 * 16);
  EXPECT_EQ(extra_parameters("lime", [](C&) {}), 2 * 4 + 2 * 6);
}

TEST(ValueOptions, KeysOfOtherPathsAreUnused) {
  const auto unread = [](const std::string& routing, const std::string& values) {
    return unread_model_keys(small_config(routing, values));
  };
  const auto has = [](const std::vector<std::string>& list, const std::string& key) {
    return std::count(list.begin(), list.end(), key) == 1;
  };
  EXPECT_TRUE(has(unread("plain", "own"), "value_gate_granularity"));
  EXPECT_TRUE(has(unread("plain", "own"), "value_layers"));
  EXPECT_TRUE(has(unread("plain", "own"), "rope_low_freq_factor"));
  EXPECT_TRUE(has(unread("plain", "own"), "lime_keys"));
  EXPECT_TRUE(has(unread("plain", "resformer"), "value_place"));
  EXPECT_FALSE(has(unread("plain", "resformer"), "value_layers"));
  EXPECT_FALSE(has(unread("plain", "satformer"), "value_sources"));
  EXPECT_TRUE(has(unread("plain", "satformer"), "neutreno_lambda"));
  EXPECT_FALSE(has(unread("plain", "neutreno"), "neutreno_lambda"));
  EXPECT_FALSE(has(unread("plain", "svformer"), "value_residual_last_k"));
  EXPECT_FALSE(has(unread("plain", "lime"), "lime_keys"));
  EXPECT_TRUE(has(unread("hyper", "own"), "mudd_w1_init"));
  EXPECT_FALSE(has(unread("mudd", "own"), "mudd_w1_init"));
  EXPECT_FALSE(has(unread("hyper", "own"), "hc_weights"));
}

}  // namespace
}  // namespace satformer
