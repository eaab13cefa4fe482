#include "infer/prompt_lookup.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "infer/generator.h"
#include "models/registry.h"
#include "nn/device.h"

namespace satformer {
namespace {

using Ids = std::vector<std::int64_t>;

TEST(PromptLookup, ProposesWhatFollowedTheLongestAndLastMatch) {
  const PromptLookup lookup(4);
  EXPECT_EQ(lookup.propose(Ids{1, 2, 3, 4, 5, 6, 1, 2}, 8), (Ids{3, 4, 5, 6}));
  EXPECT_EQ(lookup.propose(Ids{1, 2, 3, 4, 5, 6, 1, 2}, 2), (Ids{3, 4}));
  EXPECT_EQ(lookup.propose(Ids{1, 2, 3, 4, 5, 6, 1, 2}, 0), Ids{});
  EXPECT_EQ(lookup.propose(Ids{1, 2, 7, 1, 2, 8, 1, 2}, 1), Ids{8});        // the last one
  EXPECT_EQ(lookup.propose(Ids{9, 1, 2, 7, 1, 2, 8, 9, 1, 2}, 1), Ids{7});  // the longer one
  EXPECT_EQ(lookup.propose(Ids{5, 1, 6, 1}, 4), Ids{});                     // one token is no match
  EXPECT_EQ(lookup.propose(Ids{1, 2, 1, 2}, 4), (Ids{1, 2, 1, 2}));         // goes on with itself
  EXPECT_EQ(lookup.propose(Ids{7, 7, 7}, 3), (Ids{7, 7, 7}));
  for (const Ids& ids : {Ids{}, Ids{1}, Ids{1, 1}, Ids{1, 2}}) EXPECT_EQ(lookup.propose(ids, 4), Ids{});
}

TEST(PromptLookup, LengthFollowsSuccess) {
  PromptLookup lookup(8);
  const Ids ids(20, 7);
  EXPECT_EQ(lookup.propose(ids, 15).size(), 8u);
  lookup.learn(8, 1);
  EXPECT_EQ(lookup.propose(ids, 15).size(), 2u);
  lookup.learn(2, 2);
  EXPECT_EQ(lookup.propose(ids, 15).size(), 4u);
  lookup.learn(4, 0);
  EXPECT_EQ(lookup.propose(ids, 15).size(), 1u);
  for (int i = 0; i < 5; ++i) lookup.learn(std::ssize(lookup.propose(ids, 15)), std::ssize(lookup.propose(ids, 15)));
  EXPECT_EQ(lookup.propose(ids, 15).size(), 8u);
}

TEST(PromptLookup, RoomKeepsPassesSmall) {
  EXPECT_EQ(proposal_room(1), 15);
  EXPECT_EQ(proposal_room(4), 3);
  EXPECT_EQ(proposal_room(16), 0);
  EXPECT_LE(proposal_room(1000), 0);
  EXPECT_NO_THROW(check_speculation(15));
  EXPECT_THROW(check_speculation(16), Error);
  EXPECT_THROW(check_speculation(-1), Error);
}

// Repeating prompts, so that some proposals are right.
TEST(Generate, SpeculationChangesNoToken) {
  set_num_threads(1);
  for (const Architecture& a : architectures()) {
    for (const char* granularity : {"token_head", "head", "layer"}) {
      if (a.name != "satformer" && std::string(granularity) != "token_head") continue;
      ModelConfig c = default_model_config(a);
      c.vocab_size = 41;
      c.hidden_size = 32;
      c.num_hidden_layers = 3;
      c.num_heads = 4;
      c.intermediate_size = 64;
      c.max_position_embeddings = 128;
      c.value_gate_granularity = granularity;
      c.initializer_range = 0.3;
      const auto model = make_model(a, c, at::kCPU);
      model->parameters().initialise(5);
      GenerateOptions options;
      options.max_new_tokens = 60;
      options.sampling.temperature = 0;
      std::vector<Ids> prompts = {{3, 4, 5, 6, 3, 4, 5, 6, 3, 4}, {9}, {7, 7, 7, 7}, {1, 2, 3, 30, 1, 2, 3}};
      std::vector<Ids> expected;
      for (const Ids& prompt : prompts) expected.push_back(generate(*model, {prompt}, options)[0]);
      for (const std::int64_t longest : {1, 4, 15}) {
        options.speculate = longest;
        SpeculationCounts counts;
        options.speculation = &counts;
        EXPECT_EQ(generate(*model, prompts, options), expected) << a.name << " " << granularity << " " << longest;
        EXPECT_EQ(counts.tokens, 240);
        EXPECT_GT(counts.accepted, 0) << a.name;
        EXPECT_LE(counts.passes, 60) << a.name;
        EXPECT_LE(counts.accepted, counts.proposed);
      }
      options.speculation = nullptr;
      options.stop_token = expected[0][30];
      options.speculate = 0;
      const auto stopped = generate(*model, prompts, options);
      options.speculate = 6;
      EXPECT_EQ(generate(*model, prompts, options), stopped) << a.name;
    }
  }
}

}  // namespace
}  // namespace satformer
