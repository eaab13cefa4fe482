#include "probe/intervention.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/tensor.h>
#include <gtest/gtest.h>

#include "base/test_error.h"
#include "probe/gate_editor.h"
#include "probe/gate_statistics.h"
#include "probe/observer_chain.h"
#include "probe/weight_edits.h"

namespace satformer {
namespace {

constexpr std::int64_t vocabulary = 53;

ModelConfig small_config(const std::string& routing, const std::string& values) {
  ModelConfig c;
  c.vocab_size = vocabulary;
  c.hidden_size = 32;
  c.num_hidden_layers = 4;
  c.num_heads = 4;
  c.num_kv_heads = 2;
  c.qk_norm = true;
  c.intermediate_size = 64;
  c.max_position_embeddings = 64;
  c.initializer_range = 0.2;
  c.residual_routing = routing;
  c.value_path = values;
  return c;
}

// No parameter at a start that would hide a mistake.
std::unique_ptr<Model> model_of(const ModelConfig& config) {
  auto model = make_decoder("x", config, at::kCPU);
  model->parameters().initialise(5);
  at::NoGradGuard no_grad;
  for (Parameter& p : model->parameters().list()) {
    const at::Tensor numbers = at::arange(p.value.numel(), at::kFloat).view(p.value.sizes());
    p.value.add_((numbers * 1.7).sin() * 0.15);
  }
  return model;
}

// Parameters of the same names take the other model's values.
void copy_parameters(const Model& from, Model& to) {
  at::NoGradGuard no_grad;
  for (Parameter& p : to.parameters().list()) {
    if (const Parameter* source = from.parameters().find(p.name)) p.value.copy_(source->value);
  }
}

at::Tensor value(Model& model, const std::string& name) { return model.parameters().find(name)->value; }

at::Tensor test_ids() {
  const at::Tensor numbers = at::arange(24, at::kLong);
  return ((numbers * 37 + numbers.floor_divide(5) * 11) % vocabulary).view({2, 12});
}

at::Tensor logits_of(Model& model, LayerObserver* observer = nullptr) {
  at::NoGradGuard no_grad;
  ForwardOptions options;
  options.observer = observer;
  return model.logits(test_ids(), options);
}

at::Tensor edited_logits(Model& model, const std::string& spec, const GateMeans* means = nullptr) {
  const Intervention intervention = parse_intervention(spec, edit_space(model, {"a", "b"}));
  const WeightEdits weights(model, intervention);
  GateEditor editor(intervention, means);
  editor.begin((test_ids() % 2).to(at::kByte), 0);
  return logits_of(model, &editor);
}

void expect_close(const at::Tensor& a, const at::Tensor& b) { EXPECT_LT((a - b).abs().max().item<double>(), 2e-5); }
void expect_apart(const at::Tensor& a, const at::Tensor& b) { EXPECT_GT((a - b).abs().max().item<double>(), 1e-3); }

at::Tensor edit(const std::string& spec, const at::Tensor& alpha, std::int64_t layer = 1,
                const GateMeans* means = nullptr, const at::Tensor& kinds = {}, std::int64_t first_row = 0) {
  EditSpace space;
  space.num_layers = 4;
  space.heads = alpha.size(2);
  space.gate_layers = {1, 2, 3};
  space.sources = {0};
  space.kinds = {"a", "b"};
  GateEditor editor(parse_intervention(spec, space), means);
  editor.begin(kinds, first_row);
  return editor.source_gate(layer, 0, alpha);
}

// One row of three tokens and two heads.
at::Tensor small_gates() { return at::tensor({1.f, 2.f, 3.f, 4.f, 5.f, 6.f}).view({1, 3, 2}); }
void expect_gates(const at::Tensor& alpha, const std::vector<float>& expected) {
  EXPECT_TRUE(at::equal(alpha.flatten(), at::tensor(expected))) << alpha;
}

TEST(GateEditor, OperationsByHand) {
  const at::Tensor g = small_gates(), kinds = at::tensor({0, 1, 0}).view({1, 3}).to(at::kByte);
  GateMeans means(2);
  means.set_kinds(kinds);
  means.source_gate(1, 0, g);
  means.source_gate(2, 0, g * 10);
  expect_gates(edit("zero", g), {0, 0, 0, 0, 0, 0});
  expect_gates(edit("zero@heads=1", g), {1, 0, 3, 0, 5, 0});
  expect_gates(edit("zero@kinds=a", g, 1, nullptr, kinds), {0, 0, 3, 4, 0, 0});
  expect_gates(edit("zero@kinds=b,heads=0", g, 1, nullptr, kinds), {1, 2, 0, 4, 5, 6});
  expect_gates(edit("scale=0.5", g), {.5f, 1, 1.5f, 2, 2.5f, 3});
  expect_gates(edit("clamp=2:4.5", g), {2, 2, 3, 4, 4.5f, 4.5f});
  expect_gates(edit("swap=0:1", g), {2, 1, 4, 3, 6, 5});
  expect_gates(edit("swap=0:1@kinds=b", g, 1, nullptr, kinds), {1, 2, 4, 3, 5, 6});
  expect_gates(edit("mean", g, 1, &means), {3, 4, 3, 4, 3, 4});
  expect_gates(edit("mean=kind", g, 1, &means, kinds), {3, 4, 3, 4, 3, 4});
  expect_gates(edit("mean=kind", g * 0, 1, &means, at::tensor({1, 0, 1}).view({1, 3}).to(at::kByte)),
               {3, 4, 3, 4, 3, 4});
  expect_gates(edit("mean=overall", g, 1, &means), std::vector<float>(6, 19.25f));  // (3.5 + 35) / 2
  expect_gates(edit("scale=2+zero@heads=0", g), {0, 4, 0, 8, 0, 12});
  EXPECT_TRUE(edit("zero@layers=2-3", g).is_same(g));
}

TEST(GateEditor, MeansOfKindsDifferAndUnseenKindsFallBack) {
  const at::Tensor g = small_gates(), kinds = at::tensor({0, 1, 1}).view({1, 3}).to(at::kByte);
  GateMeans means(3);
  means.set_kinds(kinds);
  means.source_gate(1, 0, g);
  expect_gates(means.of_kinds(1, 0).to(at::kFloat), {1, 2, 4, 5, 3, 4});
}

TEST(GateEditor, ShuffleKeepsTheGatesOfARowAndFollowsRowNumbers) {
  const at::Tensor g = at::arange(2 * 16 * 2, at::kFloat).view({2, 16, 2});
  const at::Tensor s = edit("shuffle", g);
  EXPECT_FALSE(at::equal(s, g));
  EXPECT_TRUE(at::equal(std::get<0>(s.sort(1)), g));           // each row's and head's own
  EXPECT_TRUE(at::equal(s.select(2, 0) + 1, s.select(2, 1)));  // heads move together
  EXPECT_FALSE(at::equal(s[0] + 32, s[1]));                    // rows do not
  EXPECT_TRUE(at::equal(edit("shuffle", g), s));
  EXPECT_FALSE(at::equal(edit("shuffle=2", g), s));
  EXPECT_TRUE(at::equal(edit("shuffle", g.narrow(0, 1, 1), 1, nullptr, {}, 1)[0], s[1]));  // another batch
  EXPECT_FALSE(at::equal(edit("shuffle", g, 2), s));                                       // layers do not either
  const at::Tensor kinds = (at::arange(32, at::kLong) % 2).view({2, 16}).to(at::kByte);
  const at::Tensor among = edit("shuffle@kinds=b", g, 1, nullptr, kinds);
  EXPECT_TRUE(at::equal(among.slice(1, 0, 16, 2), g.slice(1, 0, 16, 2)));
  EXPECT_FALSE(at::equal(among, g));
}

TEST(Interventions, UneditedLogitsKeepTheirBits) {
  for (const char* values : {"satformer", "resformer", "own", "fixed"}) {
    for (const char* routing : {"plain", "dense", "mudd", "hyper"}) {
      const auto model = model_of(small_config(routing, values));
      const at::Tensor plain = logits_of(*model);
      GateEditor nothing(Intervention{});
      GateStatistics statistics;
      ObserverChain chain({&nothing, nullptr, &statistics});
      EXPECT_TRUE(at::equal(logits_of(*model, &chain), plain)) << routing << " " << values;
      const EditSpace space = edit_space(*model, {});
      if (space.empty()) continue;
      for (const std::string& name : space.operations()) {
        if (name == "scale" || name == "clamp" || name == "swap") continue;  // need arguments, edit gates
        { const WeightEdits edits(*model, parse_intervention(name, space)); }
        EXPECT_TRUE(at::equal(logits_of(*model), plain)) << routing << " " << values << " after " << name;
      }
    }
  }
}

TEST(Interventions, ZeroGatesAreAModelWithoutThem) {
  for (const char* place : {"values", "output"}) {
    ModelConfig c = small_config("plain", "satformer");
    c.value_place = place;
    const auto model = model_of(c), without = model_of(small_config("plain", "own"));
    copy_parameters(*model, *without);
    expect_apart(logits_of(*model), logits_of(*without));
    expect_close(edited_logits(*model, "zero"), logits_of(*without));
    expect_apart(edited_logits(*model, "zero@layers=1-2"), logits_of(*without));
    expect_close(edited_logits(*model, "zero@layers=1-2+scale=0@layers=3"), logits_of(*without));
  }
}

TEST(Interventions, ScaleAndSwapAreThoseOfTheGateProjection) {
  const auto model = model_of(small_config("plain", "satformer")),
             other = model_of(small_config("plain", "satformer"));
  const std::string name = "model.layers.2.attn.value_residual_mixing.alpha_proj.weight";
  {
    at::NoGradGuard no_grad;
    value(*other, name).mul_(2);
  }
  expect_close(edited_logits(*model, "scale=2@layers=2"), logits_of(*other));  // relu(2 x) = 2 relu(x)
  {
    at::NoGradGuard no_grad;
    value(*other, name).copy_(value(*model, name).flip(0));
  }
  expect_close(edited_logits(*model, "swap=0:1@layers=2"), logits_of(*other));
  expect_apart(logits_of(*model), logits_of(*other));
}

TEST(Interventions, LearnedWeights) {
  {
    const auto model = model_of(small_config("plain", "resformer")),
               other = model_of(small_config("plain", "resformer"));
    const at::Tensor before = resformer_lambda1(*model);
    {
      at::NoGradGuard no_grad;
      value(*other, "model.lambda_manager.lambda_scale").zero_();
    }
    expect_close(edited_logits(*model, "lambda1-zero"), logits_of(*other));
    const Intervention one = parse_intervention("lambda1-zero@layers=2", edit_space(*model, {}));
    {
      const WeightEdits edits(*model, one);
      const at::Tensor after = resformer_lambda1(*model);
      EXPECT_EQ(after[1].item<double>(), 0);
      EXPECT_NEAR(after[0].item<double>(), before[0].item<double>(), 1e-6);
      EXPECT_NEAR(after[2].item<double>(), before[2].item<double>(), 1e-6);
    }
    const WeightEdits edits(*model, parse_intervention("lambda1-mean", edit_space(*model, {})));
    for (int i = 0; i < 3; ++i) {
      EXPECT_NEAR(resformer_lambda1(*model)[i].item<double>(), before.mean().item<double>(), 1e-6);
    }
  }
  {
    const auto model = model_of(small_config("dense", "own")), plain = model_of(small_config("plain", "own"));
    copy_parameters(*model, *plain);
    expect_close(edited_logits(*model, "dense-own"), logits_of(*plain));
    expect_apart(logits_of(*model), logits_of(*plain));
  }
  {
    ModelConfig c = small_config("hyper", "own");
    const auto model = model_of(c);
    c.use_dynamic_hc = false;
    const auto fixed = model_of(c);
    copy_parameters(*model, *fixed);
    expect_close(edited_logits(*model, "hyper-static"), logits_of(*fixed));
    expect_apart(logits_of(*model), logits_of(*fixed));
  }
  {
    const auto model = model_of(small_config("mudd", "own")), other = model_of(small_config("mudd", "own"));
    for (int layer = 0; layer < 4; ++layer) {
      at::NoGradGuard no_grad;
      value(*other, concat("model.layers.", layer, ".da.w2.weight")).zero_();
    }
    expect_close(edited_logits(*model, "mudd-static"), logits_of(*other));
    expect_apart(logits_of(*model), logits_of(*other));
  }
}

TEST(Interventions, MalformedSpecsAreToldWithTheNearestName) {
  const auto model = model_of(small_config("plain", "satformer"));
  const EditSpace space = edit_space(*model, {"semantic", "functional"});
  const auto expect = [&](const std::string& spec, const std::string& part) {
    const std::string text = error_text([&] { parse_intervention(spec, space); }, ExitCode::usage);
    EXPECT_NE(text.find(part), std::string::npos) << spec << ": " << text;
    EXPECT_NE(text.find(spec), std::string::npos) << spec << ": " << text;
  };
  expect("zreo", "'zero'");
  expect("", "unknown operation");
  expect("zero+", "unknown operation");
  expect("zero@layer=1", "'layers'");
  expect("zero@layers=", "needs a list");
  expect("zero@layers=0", "1-3");
  expect("zero@layers=1-9", "layer 9");
  expect("zero@layers=3-1", "empty");
  expect("zero@layers=1,layers=2", "twice");
  expect("zero@heads=2", "heads are 0-1");
  expect("zero@kinds=semantc", "'semantic'");
  expect("zero@sources=1", "on 0");
  expect("zero=3", "takes no argument");
  expect("mean=heads", "'head'");
  expect("scale", "factor");
  expect("scale=x", "'x'");
  expect("scale=inf", "'inf'");
  expect("clamp=1", "range");
  expect("clamp=2:1", "empty");
  expect("swap=0:0", "itself");
  expect("swap=0:1@heads=0", "not by 'heads'");
  expect("shuffle=-1", "'-1'");
  expect("lambda1-zero", "does not apply");
  const Intervention fine = parse_intervention("mean=kind@layers=1/3,heads=0+zero@kinds=semantic/functional", space);
  ASSERT_EQ(fine.edits.size(), 2u);
  EXPECT_EQ(fine.edits[0].layers, (std::vector<std::int64_t>{1, 3}));
  EXPECT_EQ(fine.edits[1].kinds, (std::vector<std::int64_t>{0, 1}));
  EXPECT_TRUE(fine.needs_means() && fine.needs_kinds());
  const auto transformer = model_of(small_config("plain", "own"));
  const std::string none =
      error_text([&] { parse_intervention("zero", edit_space(*transformer, {})); }, ExitCode::usage);
  EXPECT_NE(none.find("no gates"), std::string::npos) << none;
}

}  // namespace
}  // namespace satformer
