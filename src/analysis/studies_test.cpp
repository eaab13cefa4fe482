// Each study on small models: its figures against computations of another kind.
#include <ATen/core/grad_mode.h>
#include <ATen/ops/allclose.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "analysis/effect.h"
#include "analysis/gate_history.h"
#include "analysis/head_similarity.h"
#include "analysis/report.h"
#include "analysis/stream_probes.h"
#include "analysis/studies/list.h"
#include "analysis/test_analysis.h"
#include "analysis/value_gradients.h"
#include "analysis/value_strength.h"
#include "base/test_error.h"
#include "io/file.h"
#include "io/test_folder.h"
#include "probe/weight_edits.h"

namespace satformer {
namespace {

using testing::analysis_config;
using testing::analysis_model;
using testing::AnalysisFixture;

StudyResult run_study(const AnalysisFixture& fixture, const std::string& name) {
  StudyResult result;
  result.name = name;
  for (const Study& study : studies()) {
    if (study.name == name) study.run(fixture.input, result);
  }
  return result;
}

at::Tensor value(Model& model, const std::string& name) { return model.parameters().find(name)->value; }

// One layer's gates before the ReLU are linear in what the layer reads; here only their bookkeeping is checked.
GateTrack track_of(std::vector<float> values, std::int64_t windows, std::int64_t heads, std::int64_t layer = 1) {
  const auto T = static_cast<std::int64_t>(values.size()) / windows / heads;
  return {layer, 0, at::tensor(values).view({windows, T, heads})};
}

TEST(Measurement, HoldsTheLossesAndGatesOfTheModel) {
  const AnalysisFixture f(analysis_config("plain", "satformer"));
  ASSERT_EQ(f.measured.gates.size(), 3u);
  EXPECT_EQ(f.measured.gates[2].layer, 3);
  EXPECT_EQ(f.measured.gates[0].gates_WTH.sizes(), (std::vector<std::int64_t>{6, 32, 2}));
  PassOptions single;
  single.batch_size = 1;
  EXPECT_TRUE(at::allclose(row_losses(*f.model, f.measured.tokens_WT1, single), f.measured.losses_WT, 1e-4, 1e-4));
  EXPECT_EQ(f.measured.kinds_WT[0][0].item<int>(), 2);  // "The": functional
  EXPECT_EQ(gate_bytes(f.model->config(), 32), 3 * 2 * 32 * 4);
}

TEST(GateStudy, FiguresOfOneHead) {
  AnalysisFixture f(analysis_config("plain", "satformer"));
  f.measured.gates = {track_of({0, 3, 0, 1, 2, 0, 0, 0}, 1, 2)};  // head 0: 0 0 2 0, head 1: 3 1 0 0
  const Json layer = run_study(f, "gates").json["layers"][0];
  EXPECT_NEAR(layer["mean"].get<double>(), 0.75, 1e-9);
  EXPECT_NEAR(layer["zero_share"].get<double>(), 5.0 / 8, 1e-9);
  EXPECT_NEAR(layer["heads"][0]["mean"].get<double>(), 0.5, 1e-9);
  EXPECT_NEAR(layer["heads"][0]["zero_share"].get<double>(), 0.75, 1e-9);
  EXPECT_NEAR(layer["heads"][0]["std"].get<double>(), std::sqrt(0.75), 1e-6);
  EXPECT_NEAR(layer["heads"][1]["saturated_share"].get<double>(), 0.5, 1e-9);
  EXPECT_NEAR(layer["heads"][1]["max"].get<double>(), 3, 1e-9);
  EXPECT_NEAR(layer["heads"][0]["entropy"].get<double>(), 0, 1e-9);
  const double start = layer["zero_share_initial"].get<double>();
  EXPECT_GT(start, 0.3);  // ReLU of zero-mean numbers
  EXPECT_LT(start, 0.7);
}

TEST(PositionStudy, AveragesOverWindows) {
  AnalysisFixture f(analysis_config("plain", "satformer"));
  f.measured.losses_WT = at::tensor({1.f, 2.f, 3.f, 6.f}).view({2, 2});
  f.measured.gates = {track_of({0, 2, 4, 4, 2, 0, 8, 0}, 2, 2)};
  const Json positions = run_study(f, "positions").json["positions"];
  ASSERT_EQ(positions.size(), 2u);
  EXPECT_EQ(positions[0]["loss"], 2.0);
  EXPECT_EQ(positions[1]["loss"], 4.0);
  EXPECT_EQ(positions[0]["gates"][0], 1.0);
  EXPECT_EQ(positions[1]["gates"][0], 4.0);
}

TEST(KindStudy, MeansOfEachKind) {
  AnalysisFixture f(analysis_config("plain", "satformer"));
  f.measured.losses_WT = at::tensor({1.f, 2.f, 3.f, 6.f}).view({2, 2});
  f.measured.kinds_WT = at::tensor({0, 1, 0, 0}).view({2, 2}).to(at::kByte);
  f.measured.gates = {track_of({0, 2, 4, 4, 2, 0, 8, 0}, 2, 2), track_of({1, 1, 1, 1, 1, 1, 1, 1}, 2, 2, 2)};
  const Json kinds = run_study(f, "kinds").json["kinds"];
  EXPECT_EQ(kinds[0]["tokens"], 3);
  EXPECT_NEAR(kinds[0]["loss"]["value"].get<double>(), 10.0 / 3, 1e-9);
  EXPECT_NEAR(kinds[0]["layers"][0]["mean"].get<double>(), 2, 1e-9);  // (1 + 1 + 4) / 3
  EXPECT_NEAR(kinds[0]["gate"]["value"].get<double>(), 1.5, 1e-9);    // with layer 2's ones
  EXPECT_NEAR(kinds[0]["zero_share"].get<double>(), 0.25, 1e-9);      // 3 of 6, 0 of 6
  EXPECT_NEAR(kinds[1]["gate"]["value"].get<double>(), 2.5, 1e-9);
  EXPECT_EQ(kinds[2]["tokens"], 0);
}

TEST(RelationStudy, FrequencyLossAndEarlierOccurrence) {
  AnalysisFixture f(analysis_config("plain", "satformer"));
  f.measured.tokens_WT1 = at::tensor({5, 6, 5, 6, 7}, at::kLong).view({1, 5});
  f.measured.losses_WT = at::tensor({4.f, 3.f, 2.f, 1.f}).view({1, 4});
  f.measured.gates = {track_of({1, 1, 3, 3}, 1, 1)};
  f.counts.assign(259, 0);
  f.counts[5] = 9;
  f.counts[6] = 99;
  const Json layer = run_study(f, "relations").json["layers"][0];
  EXPECT_NEAR(layer["seen_before"].get<double>(), 1, 1e-6);  // the third and fourth stood there before
  EXPECT_EQ(layer["mean_if_seen"], 3.0);
  EXPECT_EQ(layer["mean_if_new"], 1.0);
  EXPECT_NEAR(layer["log_frequency"].get<double>(), 0, 1e-6);
  EXPECT_NEAR(layer["loss_next"].get<double>(), -2 / std::sqrt(5.0), 1e-6);  // of 4 3 2 1 with 1 1 3 3
  EXPECT_NEAR(layer["loss_own"].get<double>(), -std::sqrt(3.0) / 2, 1e-6);   // of 4 3 2 with 1 3 3
}

TEST(HeadStudy, CorrelationsAcrossLayers) {
  const std::vector<GateTrack> tracks = {track_of({1, 5, 2, 5, 3, 5, 7, 5}, 2, 2),
                                         track_of({2, -1, 4, -2, 6, -3, 14, -7}, 2, 2, 2)};
  const at::Tensor s = head_correlations(tracks);
  EXPECT_NEAR(s[0][2].item<double>(), 1, 1e-9);
  EXPECT_NEAR(s[0][3].item<double>(), -1, 1e-9);
  EXPECT_TRUE(std::isnan(s[0][1].item<double>()));  // the second head does not vary
  EXPECT_TRUE(std::isnan(s[1][1].item<double>()));
}

TEST(Effects, ArePairedByWindowAndKind) {
  Measurement m;
  m.losses_WT = at::tensor({1.f, 2.f, 3.f, 6.f}).view({2, 2});
  m.kinds_WT = at::tensor({0, 1, 0, 0}).view({2, 2}).to(at::kByte);
  m.kind_names = {"a", "b"};
  const Effect e = effect_of(at::tensor({2.f, 2.f, 3.f, 9.f}).view({2, 2}), m, "x", 500);
  EXPECT_NEAR(e.all.value, 1, 1e-6);  // changes 1 0 0 3
  EXPECT_NEAR(e.all.interval.low, 0.5, 1e-6);
  EXPECT_NEAR(e.all.interval.high, 1.5, 1e-6);
  EXPECT_NEAR(e.kinds[0].value, 4.0 / 3, 1e-6);
  EXPECT_NEAR(e.kinds[1].value, 0, 1e-6);
}

TEST(InterventionStudy, ChangesAreThoseOfTheEditedModelAndNothingStays) {
  AnalysisFixture f(analysis_config("plain", "satformer"));
  const EditSpace space = edit_space(*f.model, f.measured.kind_names);
  f.input.interventions = {parse_intervention("scale=1", space), parse_intervention("zero@kinds=functional", space)};
  const Json json = run_study(f, "interventions").json;
  std::map<std::string, double> change;
  for (const Json& edit : json["edits"]) change[edit["edit"]] = edit["change"]["value"];
  for (const char* spec :
       {"zero", "mean=overall", "mean=head", "mean=kind", "shuffle", "zero@layers=1", "zero@layers=3"}) {
    ASSERT_TRUE(change.contains(spec)) << spec;
  }
  EXPECT_NEAR(change["scale=1"], 0, 1e-6);
  EXPECT_NE(change["zero@kinds=functional"], change["zero"]);
  const auto without = analysis_model(analysis_config("plain", "own"));
  for (Parameter& p : without->parameters().list()) {
    at::NoGradGuard no_grad;
    p.value.copy_(value(*f.model, p.name));
  }
  const double own = row_losses(*without, f.measured.tokens_WT1, {}).mean().item<double>();
  EXPECT_NEAR(change["zero"], own - f.measured.losses_WT.mean().item<double>(), 1e-4);
  PassOptions options;
  options.batch_size = f.input.batch_size;
  EXPECT_TRUE(at::equal(row_losses(*f.model, f.measured.tokens_WT1, options), f.measured.losses_WT));
}

TEST(ValueStrength, ByHand) {
  ModelConfig c = analysis_config("plain", "satformer");
  const auto model = make_model(architecture_by_name("satformer"), c, at::Device(at::kMeta));
  ValueStrength strength(*model);
  AttentionView view;
  const at::Tensor v1 = at::tensor({3.f, 4.f, 0.f, 0.f}).view({1, 1, 2, 2});
  const at::Tensor own = at::tensor({0.f, 5.f, 2.f, 0.f}).view({1, 1, 2, 2});
  const at::Tensor alpha = at::tensor({2.f, 1.f}).view({1, 1, 2});
  view.attend = [](const at::Tensor& values) { return values.flatten(2); };
  strength.values(0, v1, v1);
  view.output_BTC = v1.flatten(2);
  strength.attention(0, view);
  strength.source_gate(1, 0, alpha);
  const at::Tensor mixed = own + alpha.unsqueeze(-1) * v1;  // 6 13 2 0
  strength.values(1, own, mixed);
  view.output_BTC = mixed.flatten(2);
  strength.attention(1, view);
  const auto layers = strength.layers();
  ASSERT_EQ(layers.size(), 1u);
  const ValueStrength::Layer& l = layers.at(1);
  EXPECT_NEAR(l.head_share[0], 10.0 / 15, 1e-9);
  EXPECT_NEAR(l.head_share[1], 0, 1e-9);
  EXPECT_NEAR(l.value_share, 5.0 / 15, 1e-9);
  EXPECT_NEAR(l.output_share, 10 / (10 + std::sqrt(29.0)), 1e-9);         // c = 6 8 0 0, the rest 0 5 2 0
  EXPECT_NEAR(l.output_projection, (36 + 104) / (36 + 169 + 4.0), 1e-9);  // <c, o> / <o, o>
}

// Attention is linear in the values: the view's functions give the sublayer's own output, and its parts.
class ViewCheck : public LayerObserver {
 public:
  at::Tensor values(std::int64_t, const at::Tensor& own, const at::Tensor& mixed) override {
    own_ = own;
    mixed_ = mixed;
    return mixed;
  }
  void attention(std::int64_t, const AttentionView& view) override {
    const at::Tensor& o = view.output_BTC;
    largest = std::max(largest, (view.attend(mixed_) - o).abs().max().item<double>());
    largest = std::max(largest, (view.attend(own_) + view.attend(mixed_ - own_) - o).abs().max().item<double>());
    ++layers;
  }
  double largest = 0;
  int layers = 0;

 private:
  at::Tensor own_, mixed_;
};

TEST(AttentionView, GivesTheOutputAndItsParts) {
  for (const char* routing : {"plain", "mudd", "hyper"}) {
    const AnalysisFixture f(analysis_config(routing, "satformer"));
    ViewCheck check;
    PassOptions options;
    options.observer = &check;
    options.document_end = static_cast<std::int64_t>('.') + 3;
    row_losses(*f.model, f.measured.tokens_WT1, options);
    EXPECT_EQ(check.layers, 4);
    EXPECT_LT(check.largest, 1e-5) << routing;
  }
}

TEST(ValueStrength, OfResFormerFollowsItsWeights) {
  const AnalysisFixture f(analysis_config("plain", "resformer"));
  {
    at::NoGradGuard no_grad;
    value(*f.model, "model.layers.2.attn.value_residual_mixing.lambda2").zero_();
  }
  ValueStrength strength(*f.model);
  PassOptions options;
  options.observer = &strength;
  row_losses(*f.model, f.measured.tokens_WT1, options);
  const auto layers = strength.layers();
  EXPECT_NEAR(layers.at(2).value_share, 1, 1e-6);
  EXPECT_NEAR(layers.at(2).output_share, 1, 1e-4);
  EXPECT_LT(layers.at(1).value_share, 0.99);
}

TEST(LogitLens, OfTheLastLayerIsTheModelsLoss) {
  const AnalysisFixture f(analysis_config("plain", "satformer"));
  const Json layers = run_study(f, "lens").json["layers"];
  ASSERT_EQ(layers.size(), 4u);
  EXPECT_NEAR(layers[3]["loss"].get<double>(), f.measured.losses_WT.mean().item<double>(), 1e-4);
  EXPECT_GT(std::fabs(layers[0]["loss"].get<double>() - layers[3]["loss"].get<double>()), 1e-3);
  EXPECT_NEAR(layers[0]["loss_without"].get<double>(), layers[0]["loss"].get<double>(),
              1e-5);  // layer 0 has no gates
  EXPECT_GT(std::fabs(layers[3]["loss_without"].get<double>() - layers[3]["loss"].get<double>()), 1e-4);
}

TEST(IdentityProbe, FindsTheTokenWhereTheStreamHoldsIt) {
  const AnalysisFixture f(analysis_config("plain", "own"));
  {
    at::NoGradGuard no_grad;
    for (int layer = 0; layer < 4; ++layer) {
      for (const char* name : {".attn.o_proj.weight", ".mlp.down_proj.weight"}) {
        value(*f.model, concat("model.layers.", layer, name)).mul_(layer == 3 ? 1000 : 0);
      }
    }
  }
  const Json layers = run_study(f, "identity").json["layers"];
  EXPECT_GT(layers[0]["accuracy"].get<double>(), 0.95);  // the embedding itself
  EXPECT_GT(layers[0]["explained"].get<double>(), 0.9);
  EXPECT_LT(layers[3]["explained"].get<double>(), layers[0]["explained"].get<double>());
}

// With one token, one head and one gate that is a parameter, the gate's gradient is a finite difference.
TEST(ValueGradients, AgreeWithFiniteDifferences) {
  for (const char* place : {"values", "output"}) {
    ModelConfig c = analysis_config("plain", "satformer");
    c.num_kv_heads = 1;
    c.value_gate_granularity = "static";
    c.value_residual_gate = "identity";
    c.value_place = place;
    const auto model = analysis_model(c);
    const std::string name = "model.layers.2.attn.value_residual_mixing.alpha";
    const at::Tensor tokens = at::tensor({70, 80}, at::kLong).view({1, 2});
    const auto loss_at = [&](double a) {
      at::NoGradGuard no_grad;
      value(*model, name).fill_(a);
      return row_losses(*model, tokens, {}).item<double>();
    };
    const double slope = (loss_at(0.51) - loss_at(0.49)) / 0.02;
    loss_at(0.5);
    const ValueGradients g = value_gradients(*model, tokens, {});
    ASSERT_EQ(g.layers.size(), 3u);
    EXPECT_NEAR(g.layers[1].gate, std::fabs(slope), 2e-3 * std::max(1.0, std::fabs(slope))) << place;
    if (c.value_place == "values") {
      EXPECT_NEAR(g.layers[1].early, 0.5 * g.layers[1].own, 1e-6);
    }
    EXPECT_FALSE(value(*model, name).grad().defined());
    EXPECT_GT(g.totals.at(0), 0);
  }
}

TEST(Studies, RunOnEveryRoutingAndValuePath) {
  for (const char* routing : {"plain", "dense", "mudd", "hyper"}) {
    for (const char* values : {"own", "resformer", "satformer", "pool"}) {
      const bool pool = std::string(values) == "pool";
      ModelConfig c = analysis_config(routing, pool ? "satformer" : values);
      if (pool) c.value_sources = {0, 1};
      AnalysisFixture f(c);
      f.input.prompt = "The lamp.";
      f.input.contrast = {{"one owl", "two owls"}, {"a lamp", "an old lamp", "."}};
      f.input.contrast_names = {"owls", "lamps"};
      AnalysisReport report;
      report.title = "<test>";
      for (const Study& study : studies()) {
        if (study.needs == Needs::run || !study.refusal(*f.model).empty()) continue;
        StudyResult result;
        result.name = result.title = study.name;
        ASSERT_NO_THROW(study.run(f.input, result)) << routing << " " << values << " " << study.name;
        EXPECT_FALSE(result.elements.empty()) << study.name;
        report.studies.push_back(std::move(result));
      }
      const TestFolder folder;
      write_report(report, folder.path());
      const Json json = read_json_file(folder.path() + "/analysis.json");
      EXPECT_EQ(json["studies"].size(), report.studies.size());
      EXPECT_EQ(json["studies"].contains("gates"), std::string(values) == "satformer" || pool);
      EXPECT_EQ(json["studies"].contains("interventions"),
                routing != std::string("plain") || values != std::string("own"));
      EXPECT_TRUE(std::filesystem::exists(folder.path() + "/positions.csv"));
    }
  }
}

TEST(Studies, AreChosenByNameAndRefusedWithReasons) {
  const auto gated = analysis_model(analysis_config("plain", "satformer")),
             plain = analysis_model(analysis_config("plain", "own"));
  const auto data_only = [](Needs needs) { return needs == Needs::data ? std::string() : "not given"; };
  EXPECT_EQ(chosen_studies("", *gated, data_only).size(), 11u);
  EXPECT_EQ(chosen_studies("lens,gates,lens", *gated, data_only).size(), 2u);
  EXPECT_EQ(chosen_studies("identity", *plain, data_only).size(), 1u);
  const auto expect = [&](const Model& model, const std::string& names, const std::string& part, ExitCode code) {
    const std::string text = error_text([&] { chosen_studies(names, model, data_only); }, code);
    EXPECT_NE(text.find(part), std::string::npos) << text;
  };
  expect(*gated, "gate", "Did you mean 'gates'?", ExitCode::usage);
  expect(*gated, "prompt", "not given", ExitCode::usage);
  expect(*plain, "gates", "studies that apply: positions", ExitCode::config);
  expect(*plain, "", "studies that apply, for --studies: positions", ExitCode::config);
}

TEST(GateHistory, ReadsWhatTrainingLogged) {
  const TestFolder folder;
  const std::string path = folder.path() + "/metrics.jsonl";
  const auto write = [&](const std::string& text) { write_file_atomic(path, text); };
  const std::string figures =
      R"("gates/layer_1/mean":0.5,"gates/layer_1/zero_share":0.25,"gates/layer_1/saturated_share":0.1)";
  write("{\"progress/step\":1,\"train/loss\":3}\n{\"progress/step\":2," + figures +
        ",\"gates/layer_1/dead_heads\":1}\n{\"progr");
  GateHistory history = read_gate_history(path);
  EXPECT_EQ(history.steps, (std::vector<std::int64_t>{2}));
  EXPECT_EQ(history.layers["layer_1"].zero_share, (std::vector<double>{0.25}));
  EXPECT_EQ(history.layers["layer_1"].dead_heads, (std::vector<double>{1}));
  write("{\"progress/step\":2," + figures + "}\n");
  EXPECT_NE(error_text([&] { read_gate_history(path); }, ExitCode::data).find("dead_heads"), std::string::npos);
  write("{\"progress/step\":1,\"train/loss\":3}\n");
  EXPECT_NE(error_text([&] { read_gate_history(path); }, ExitCode::data).find("--log-gates"), std::string::npos);
}

}  // namespace
}  // namespace satformer
