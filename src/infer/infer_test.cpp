#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "infer/generator.h"
#include "models/registry.h"

namespace satformer {
namespace {

std::unique_ptr<Model> small_model(const Architecture& architecture) {
  ModelConfig c = default_model_config(architecture);
  c.vocab_size = 71;
  c.hidden_size = 32;
  c.num_hidden_layers = 3;
  c.num_heads = 4;
  c.intermediate_size = 64;
  c.max_position_embeddings = 64;
  c.initializer_range = 0.3;
  auto model = make_model(architecture, c, at::kCPU);
  model->parameters().initialise(5);
  return model;
}

std::vector<std::int64_t> prompt_of(std::int64_t length) {
  std::vector<std::int64_t> ids;
  for (std::int64_t i = 0; i < length; ++i) ids.push_back((i * 37 + length * 11) % 71);
  return ids;
}

// Pads must not be seen, and positions come from each row's own tokens.
TEST(Generate, PromptsTogetherGiveWhatEachGivesAlone) {
  for (const Architecture& a : architectures()) {
    const auto model = small_model(a);
    GenerateOptions options;
    options.max_new_tokens = 20;
    options.sampling.temperature = 0;
    const std::vector<std::vector<std::int64_t>> prompts = {prompt_of(1), prompt_of(7), prompt_of(33)};
    const auto together = generate(*model, prompts, options);
    for (std::size_t i = 0; i < prompts.size(); ++i) {
      EXPECT_EQ(generate(*model, {prompts[i]}, options)[0], together[i]) << a.name << " row " << i;
    }
  }
}

TEST(Generate, ContextIsUsedToTheLastTokenAndNotPassed) {
  const auto model = small_model(architecture_by_name("satformer"));
  GenerateOptions options;
  options.max_new_tokens = 30;
  EXPECT_EQ(generate(*model, {prompt_of(34)}, options)[0].size(), 30u);
  try {
    generate(*model, {prompt_of(35)}, options);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::config);
    for (const char* number : {"35", "30", "64"}) {
      EXPECT_NE(std::string(error.what()).find(number), std::string::npos) << error.what();
    }
  }
}

TEST(Generate, RefusesIdsOutsideTheVocabulary) {
  const auto model = small_model(architecture_by_name("transformer"));
  for (const std::int64_t id : {std::int64_t{-1}, std::int64_t{71}, std::int64_t{1} << 31}) {
    EXPECT_THROW(generate(*model, {{1, id}}, {}), Error) << id;
  }
  EXPECT_THROW(generate(*model, {{}}, {}), Error);
}

TEST(Generate, StopTokenEndsItsRowOnly) {
  const auto model = small_model(architecture_by_name("resformer"));
  GenerateOptions options;
  options.max_new_tokens = 12;
  options.sampling.temperature = 0;
  const auto free = generate(*model, {prompt_of(4), prompt_of(9)}, options);
  options.stop_token = free[0][5];
  const auto stopped = generate(*model, {prompt_of(4), prompt_of(9)}, options);
  const auto first = std::find(free[0].begin(), free[0].end(), *options.stop_token);
  EXPECT_EQ(stopped[0], std::vector<std::int64_t>(free[0].begin(), first));
  const auto other = std::find(free[1].begin(), free[1].end(), *options.stop_token);
  EXPECT_EQ(stopped[1], std::vector<std::int64_t>(free[1].begin(), other));
}

TEST(Sampler, FrequenciesFollowTheSoftmax) {
  const float logits[] = {0.0f, 1.0f, 2.0f, -1.0f};
  SamplingOptions options;
  options.temperature = 0.5;
  options.seed = 9;
  std::vector<int> count(4);
  const int draws = 20000;
  for (int i = 0; i < draws; ++i)
    ++count[static_cast<std::size_t>(sample_token(logits, options, 0, static_cast<std::uint64_t>(i)))];
  double total = 0;
  for (const float l : logits) total += std::exp(2.0 * l);
  for (std::size_t i = 0; i < 4; ++i) {
    const double p = std::exp(2.0 * logits[i]) / total;
    EXPECT_NEAR(count[i] / double(draws), p, 5 * std::sqrt(p * (1 - p) / draws) + 1e-4);
  }
}

TEST(Sampler, TopKAndTopPCutTheTail) {
  const float logits[] = {3.0f, 2.0f, 1.0f, 0.0f};  // probabilities 0.64, 0.24, 0.09, 0.03
  SamplingOptions options;
  std::vector<bool> seen(4);
  const auto draw = [&] {
    seen.assign(4, false);
    for (std::uint64_t i = 0; i < 3000; ++i)
      seen[static_cast<std::size_t>(sample_token(logits, options, 1, i))] = true;
  };
  options.top_k = 2;
  draw();
  EXPECT_EQ(seen, (std::vector<bool>{true, true, false, false}));
  options.top_k = 0;
  options.top_p = 0.9;
  draw();
  EXPECT_EQ(seen, (std::vector<bool>{true, true, true, false}));
  options.top_p = 0.5;
  draw();
  EXPECT_EQ(seen, (std::vector<bool>{true, false, false, false}));
}

TEST(Sampler, OutOfRangeValuesAreNamed) {
  for (const auto& bad : {SamplingOptions{-1, 0, 1, 0}, SamplingOptions{std::nan(""), 0, 1, 0},
                          SamplingOptions{1, -1, 1, 0}, SamplingOptions{1, 0, 0, 0}, SamplingOptions{1, 0, 1.5, 0}}) {
    EXPECT_THROW(check_sampling(bad), Error);
  }
}

}  // namespace
}  // namespace satformer
