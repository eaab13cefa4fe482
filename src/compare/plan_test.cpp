#include "compare/plan.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/test_error.h"

namespace satformer {
namespace {

CompareSpec grid() {
  return parse_compare_spec(parse_json(R"({
    "name": "grid",
    "base": {"model.config_overrides": {"vocab_size": 64, "hidden_size": 16, "num_hidden_layers": 2, "num_heads": 2,
                                        "intermediate_size": 32, "max_position_embeddings": 32},
             "data.seq_length": 32,
             "training": {"batch_size": 4, "gradient_accumulation_steps": 2, "max_tokens": 0.00001, "warmup_tokens": 0,
                          "learning_rate": 0.01, "min_lr": 0}},
    "arms": ["transformer", {"name": "two", "architecture": "satformer", "set": {"training.learning_rate": 0.5}}],
    "data": [{"name": "x", "set": {"data.data_dir": "x", "training.learning_rate": 0.1}},
             {"name": "y", "prepare": ["text.txt"]}],
    "sizes": [{"name": "s", "set": {}}, {"name": "m", "set": {"model.config_overrides.hidden_size": 32}}],
    "seeds": [7, 8], "threads": 1, "parallel": 3
  })",
                                       ""),
                            "grid.json");
}

TEST(Plan, CrossesAllAxesWithSeedsOutermost) {
  const Plan plan = make_plan(grid(), {.output = "out"});
  ASSERT_EQ(plan.runs.size(), 16u);
  EXPECT_EQ(plan.groups.size(), 4u);
  EXPECT_EQ(plan.costs.size(), 8u);
  for (std::size_t i = 0; i < 8; ++i) EXPECT_EQ(plan.runs[i].seed, 7);
  EXPECT_EQ(plan.runs[0].folder, "out/runs/x/s/transformer/seed-7");
  EXPECT_EQ(plan.runs[0].name(), "'transformer' on x, s, seed 7");
  EXPECT_EQ(plan.parallel, 3);
  EXPECT_EQ(plan.threads, 1);
  // 10,000 tokens in steps of 4 x 2 x 32.
  EXPECT_EQ(plan.runs[0].steps, 39);
}

TEST(Plan, LaterLayersGoOverEarlierOnes) {
  const Plan plan = make_plan(grid(), {.output = "out", .overrides = {"training.beta2=0.99"}});
  const auto config = [&](std::size_t run) { return plan.runs.at(run).config; };
  EXPECT_EQ(config(0)["training"]["learning_rate"], 0.1);  // data over base
  EXPECT_EQ(config(1)["training"]["learning_rate"], 0.5);  // arm over data
  EXPECT_EQ(config(4)["training"]["learning_rate"], 0.01);
  EXPECT_EQ(config(2)["model"]["config_overrides"]["hidden_size"], 32);
  EXPECT_EQ(config(0)["data"]["data_dir"], "x");
  EXPECT_EQ(config(4)["data"]["data_dir"], "out/data/y");
  for (std::size_t i = 0; i < plan.runs.size(); ++i) {
    EXPECT_EQ(config(i)["training"]["beta2"], 0.99);
    EXPECT_EQ(config(i)["system"]["seed"], i < 8 ? 7 : 8);
    EXPECT_EQ(config(i)["checkpointing"]["checkpoint_dir"], plan.runs[i].folder + "/train");
  }
  EXPECT_GT(plan.cost({"x", "m"}, "two").parameters, plan.cost({"x", "s"}, "two").parameters);
}

TEST(Plan, DevicesTakeRunsInTurn) {
  CompareSpec spec = grid();
  spec.parallel = 0;
  const Plan plan = make_plan(spec, {.output = "out", .devices = {"cuda:0", "cuda:1"}});
  EXPECT_EQ(plan.parallel, 2);
  EXPECT_EQ(plan.runs[0].config["system"]["device"], "cuda:0");
  EXPECT_EQ(plan.runs[1].config["system"]["device"], "cuda:1");
}

TEST(Plan, ImpossibleRunsAreNamed) {
  CompareSpec spec = grid();
  spec.arms[1].set["training"]["learning_rat"] = 1;
  const std::string unknown = error_text([&] { make_plan(spec, {.output = "out"}); }, ExitCode::config);
  EXPECT_NE(unknown.find("run 'two' on x, s, seed 7"), std::string::npos) << unknown;
  EXPECT_NE(unknown.find("learning_rate"), std::string::npos) << unknown;
  spec = grid();
  spec.base["training"]["batch_size"] = 1 << 20;
  spec.base["training"]["max_tokens"] = 1.0;
  EXPECT_NE(error_text([&] { make_plan(spec, {.output = "out"}); }, ExitCode::memory).find("batch_size"),
            std::string::npos);
  const Plan plan = make_plan(spec, {.output = "out", .must_fit = false});
  EXPECT_EQ(plan.remarks.size(), 1u);
}

}  // namespace
}  // namespace satformer
