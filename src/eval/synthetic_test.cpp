#include "eval/synthetic.h"

#include <gtest/gtest.h>

#include <cmath>

#include "base/test_error.h"
#include "data/synthetic/windows.h"
#include "eval/results.h"
#include "models/registry.h"

namespace satformer {
namespace {

std::unique_ptr<Model> small_model(std::int64_t vocab_size) {
  const Architecture& architecture = architecture_by_name("satformer");
  ModelConfig c = default_model_config(architecture);
  c.vocab_size = vocab_size;
  c.hidden_size = 32;
  c.num_hidden_layers = 2;
  c.num_heads = 2;
  c.intermediate_size = 32;
  c.max_position_embeddings = 64;
  c.initializer_range = 0.3;
  auto model = make_model(architecture, c, at::kCPU);
  model->parameters().initialise(3);
  return model;
}

SyntheticOptions options_of(const std::string& task) {
  SyntheticOptions options;
  options.task = task;
  options.vocab_size = 160;
  options.val_examples = 120;
  return options;
}

TEST(SyntheticEval, ResultsAreThoseOfTheExamples) {
  const auto model = small_model(160);
  const SyntheticOptions options = options_of("mixed_recall");
  const TaskResult result = evaluate_synthetic(options, {.model = *model});
  ASSERT_EQ(result.samples.size(), 120u);
  const SyntheticWindows windows(options, nullptr, evaluation_examples, 120);
  std::vector<double> all;
  double sum = 0, raw = 0;
  for (const Sample& sample : result.samples) {
    const SyntheticExample example = windows.example(sample.id);
    EXPECT_EQ(sample.question.document.at("ids"), Json(example.ids));
    all.push_back(sample.scores.at(0).value);
    EXPECT_NEAR(sample.scores[0].value, (sample.scores.at(1).value + sample.scores.at(2).value) / 2, 1e-12);
    EXPECT_EQ(sample.scores.at(3).value, sample.scores[0].value == 1 ? 1 : 0);
    EXPECT_EQ(sample.response.tokens, 8);
    sum += all.back();
    raw += sample.scores[1].value;
  }
  double squares = 0;
  for (const double value : all) squares += (value - sum / 120) * (value - sum / 120);
  const Json json = results_json({result}, {}, {});
  const Json& entry = json.at("results").at("mixed_recall");
  EXPECT_NEAR(entry.at("acc,none").get<double>(), sum / 120, 1e-12);
  EXPECT_NEAR(entry.at("acc_raw,none").get<double>(), raw / 120, 1e-12);
  EXPECT_NEAR(entry.at("acc_stderr,none").get<double>(), std::sqrt(squares / 119 / 120), 1e-12);
  EXPECT_TRUE(entry.contains("acc_contextual,none") && entry.contains("exact_match,none"));
  EXPECT_EQ(json.at("configs").at("mixed_recall").at("metadata").at("synthetic").at("pairs"), 8);
  EXPECT_EQ(json.at("n-samples").at("mixed_recall").at("effective"), 120);
}

TEST(SyntheticEval, NeitherBatchNorLimitChangesAnExample) {
  const auto model = small_model(160);
  const SyntheticOptions options = options_of("mqar");
  const TaskResult whole = evaluate_synthetic(options, {.model = *model, .batch_size = 50});
  const TaskResult part = evaluate_synthetic(options, {.model = *model, .limit = 20, .batch_size = 3});
  ASSERT_EQ(part.samples.size(), 20u);
  EXPECT_EQ(part.documents, 120);
  for (std::size_t i = 0; i < 20; ++i) {
    EXPECT_NEAR(part.samples[i].response.total(), whole.samples[i].response.total(), 1e-3);
    EXPECT_EQ(part.samples[i].arguments, whole.samples[i].arguments);
  }
}

TEST(SyntheticEval, WhatTheModelHasNotIsAnError) {
  const auto model = small_model(100);
  const auto refused = [&](const SyntheticOptions& options) {
    return error_text([&] { evaluate_synthetic(options, {.model = *model}); }, ExitCode::config);
  };
  SyntheticOptions options = options_of("mqar");
  EXPECT_NE(refused(options).find("160 ids, the model's vocabulary 100"), std::string::npos);
  options.vocab_size = 100;
  options.seq_length = 128;
  EXPECT_NE(refused(options).find("128"), std::string::npos);
  EXPECT_NE(refused(options_of("recall_stories")).find("tokenizer"), std::string::npos);
}

}  // namespace
}  // namespace satformer
