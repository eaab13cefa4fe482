#include "infer/likelihood.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/log_softmax.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "infer/generator.h"
#include "infer/text_model.h"
#include "models/registry.h"

namespace satformer {
namespace {

using Ids = std::vector<std::int64_t>;

std::unique_ptr<Model> small_model(const Architecture& architecture, std::int64_t vocab = 71) {
  ModelConfig c = default_model_config(architecture);
  c.vocab_size = vocab;
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

Ids some_ids(std::int64_t length, std::int64_t seed) {
  Ids ids;
  for (std::int64_t i = 0; i < length; ++i) ids.push_back((i * 37 + seed * 11 + (i * i) % 13) % 71);
  return ids;
}

// From the logits of the row alone.
Likelihood plain(Model& model, const LikelihoodRequest& request, std::int64_t max_length) {
  at::NoGradGuard no_grad;
  Ids tokens = request.context;
  tokens.insert(tokens.end(), request.continuation.begin(), request.continuation.end());
  const auto kept = std::min<std::size_t>(tokens.size(), static_cast<std::size_t>(max_length) + 1);
  tokens.erase(tokens.begin(), tokens.end() - static_cast<std::ptrdiff_t>(kept));
  const auto T = static_cast<std::int64_t>(tokens.size()) - 1;
  const at::Tensor ids = at::empty({1, T}, at::kLong);
  std::copy_n(tokens.begin(), T, ids.mutable_data_ptr<std::int64_t>());
  const at::Tensor logp = at::log_softmax(model.logits(ids, {})[0], 1);
  Likelihood result;
  for (std::int64_t t = T - static_cast<std::int64_t>(request.continuation.size()); t < T; ++t) {
    const std::int64_t target = tokens[static_cast<std::size_t>(t) + 1];
    result.sum += logp[t][target].item<double>();
    result.greedy = result.greedy && logp[t].argmax().item<std::int64_t>() == target;
  }
  return result;
}

TEST(Likelihood, GroupsGiveWhatEachRequestGivesAlone) {
  for (const Architecture& a : architectures()) {
    const auto model = small_model(a);
    std::vector<std::vector<LikelihoodRequest>> groups;
    for (std::int64_t g = 0; g < 5; ++g) {
      std::vector<LikelihoodRequest> group;
      for (std::int64_t c = 0; c < 3; ++c) group.push_back({some_ids(7 + 9 * g, g), some_ids(1 + c + g % 2, 50 + c)});
      groups.push_back(group);
    }
    groups.push_back({{some_ids(20, 1), some_ids(3, 2)}});                                     // alone
    groups.push_back({{some_ids(12, 3), some_ids(4, 9)}, {some_ids(15, 4), some_ids(4, 9)}});  // nothing shared
    groups.push_back({{some_ids(80, 5), some_ids(5, 6)}, {some_ids(80, 5), some_ids(9, 7)}});  // cut on the left
    for (const std::int64_t batch : {1, 4, 64}) {
      LikelihoodOptions options;
      options.batch_size = batch;
      std::size_t done = 0;
      options.done = [&](std::size_t g, std::span<const Likelihood> results) {
        ++done;
        EXPECT_EQ(results.size(), groups[g].size());
        for (std::size_t i = 0; i < results.size(); ++i) {
          const Likelihood expected = plain(*model, groups[g][i], 64);
          EXPECT_NEAR(results[i].sum, expected.sum, 2e-4) << a.name << " group " << g << " request " << i;
          EXPECT_EQ(results[i].greedy, expected.greedy);
        }
        return true;
      };
      score_groups(*model, groups, options);
      EXPECT_EQ(done, groups.size());
    }
  }
}

TEST(Likelihood, GreedyIsToldFromTheModelsOwnChoice) {
  const auto model = small_model(architecture_by_name("satformer"));
  GenerateOptions generation;
  generation.max_new_tokens = 5;
  generation.sampling.temperature = 0;
  const Ids own = generate(*model, {some_ids(9, 1)}, generation)[0];
  Ids other = own;
  other.back() = (other.back() + 1) % 71;
  const std::vector<LikelihoodRequest> requests = {{some_ids(9, 1), own}, {some_ids(9, 1), other}};
  const auto results = score_requests(*model, requests, {});
  EXPECT_TRUE(results[0].greedy);
  EXPECT_FALSE(results[1].greedy);
}

TEST(Likelihood, RequestsThatCannotBeScoredAreNamed) {
  EXPECT_THROW(check_request({{}, {1}}, 64, 71), Error);
  EXPECT_THROW(check_request({{1}, {}}, 64, 71), Error);
  EXPECT_THROW(check_request({{1}, {71}}, 64, 71), Error);
  EXPECT_THROW(check_request({{-1}, {1}}, 64, 71), Error);
  EXPECT_NO_THROW(check_request({{1}, some_ids(64, 0)}, 64, 71));
  try {
    check_request({{1}, some_ids(65, 0)}, 64, 71);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::data);
    for (const char* number : {"65", "64"}) EXPECT_NE(std::string(error.what()).find(number), std::string::npos);
  }
}

TEST(TextModel, SpacesBeforeTheContinuationBelongToIt) {
  const auto model = small_model(architecture_by_name("transformer"), 259);
  const auto tokenizer = make_byte_tokenizer();
  const TextModel text{.model = *model, .tokenizer = *tokenizer, .max_length = 64, .prefix_token = 1};
  const LikelihoodRequest moved = text.pair("ab  ", "c");
  EXPECT_EQ(moved.context, text.encode("ab", false));
  EXPECT_EQ(moved.continuation, text.encode("  c", false));
  const LikelihoodRequest bare = text.pair("", "c");
  EXPECT_EQ(bare.context, Ids{1});
  EXPECT_EQ(bare.continuation, text.encode("c", false));
  EXPECT_EQ(text.prompt("0123456789", 60), text.encode("6789", false));
  EXPECT_THROW(text.prompt("x", 64), Error);
}

TEST(TextModel, WindowsScoreEveryTokenOnce) {
  const Ids tokens = some_ids(50, 3);
  for (const auto& [window, stride] : {std::pair{16, 16}, {16, 5}, {16, 1}, {50, 50}, {64, 10}}) {
    Ids scored;
    for (const LikelihoodRequest& w : rolling_windows(tokens, 2, window, stride)) {
      const auto length = static_cast<std::int64_t>(w.context.size() + w.continuation.size()) - 1;
      EXPECT_LE(length, window);
      if (!scored.empty()) {
        EXPECT_EQ(length, window);  // as much context as fits
        EXPECT_EQ(w.context.back(), scored.back());
      }
      scored.insert(scored.end(), w.continuation.begin(), w.continuation.end());
    }
    EXPECT_EQ(scored, tokens) << window << " " << stride;
  }
  EXPECT_THROW(rolling_windows(tokens, 2, 16, 17), Error);
}

TEST(TextModel, GenerationStopsAtStringsForEachRowAlone) {
  const auto model = small_model(architecture_by_name("satformer"), 259);
  const auto tokenizer = make_byte_tokenizer();
  const TextModel text{.model = *model, .tokenizer = *tokenizer, .max_length = 64, .prefix_token = 1};
  std::vector<GenerationRequest> requests;
  for (const char* prompt : {"a", "some longer prompt", "xyz", "and"}) {
    requests.push_back({.prompt = text.encode(prompt, false), .max_new_tokens = 20, .stop = {}});
  }
  const auto run = [&](const std::vector<GenerationRequest>& all, std::int64_t batch) {
    std::vector<std::string> texts(all.size());
    GenerationOptions options;
    options.batch_size = batch;
    options.done = [&](std::size_t i, const std::string& generated) {
      texts[i] = generated;
      return true;
    };
    generate_texts(text, all, options);
    return texts;
  };
  const auto free = run(requests, 4);
  EXPECT_EQ(free, run(requests, 1));
  // A stop string of one row's own text: that row is cut before it, the others only where they have it too.
  const std::string stop = free[1].substr(free[1].size() / 2, 1);
  for (GenerationRequest& request : requests) request.stop = {"never there", stop};
  const auto stopped = run(requests, 4);
  for (std::size_t i = 0; i < free.size(); ++i) EXPECT_EQ(stopped[i], free[i].substr(0, free[i].find(stop)));
  EXPECT_LT(stopped[1].size(), free[1].size());
}

}  // namespace
}  // namespace satformer
