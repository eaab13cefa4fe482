#include "train/step.h"

#include <ATen/ops/full_like.h>
#include <ATen/ops/randint.h>
#include <gtest/gtest.h>

#include <map>

#include "train/test_run.h"

namespace satformer {
namespace {

using testing_support::TinyRun;

std::unique_ptr<Model> tiny_model(const std::string& name) {
  const TinyRun run(name);
  const RunSettings settings = run.settings();
  auto model = make_model(settings.architecture(), settings.config().model.config, at::Device(c10::DeviceType::CPU));
  model->parameters().initialise(3);
  return model;
}

// Six windows, a different number of masked labels in each.
Batch masked_batch() {
  Batch batch{at::randint(0, 32, {6, 16}, at::kLong), at::randint(0, 32, {6, 16}, at::kLong)};
  auto* targets = batch.targets_BT.mutable_data_ptr<std::int64_t>();
  for (std::int64_t row = 0; row < 6; ++row) {
    for (std::int64_t t = 0; t < row * 3 && t < 16; ++t) targets[row * 16 + t] = ignored_target;
  }
  return batch;
}

std::vector<Batch> cut(const Batch& batch, const std::vector<std::int64_t>& sizes) {
  std::vector<Batch> parts;
  std::int64_t first = 0;
  for (const std::int64_t size : sizes) {
    parts.push_back({batch.ids_BT.narrow(0, first, size).clone(), batch.targets_BT.narrow(0, first, size).clone()});
    first += size;
  }
  return parts;
}

struct Outcome {
  StepLoss loss;
  std::map<std::string, at::Tensor> grads;
};

Outcome run_step(Model& model, const std::vector<Batch>& batches, const ForwardOptions& options = {}) {
  for (Parameter& p : model.parameters().list()) p.value.mutable_grad().reset();
  Outcome outcome;
  outcome.loss = accumulate_gradients(model, batches, options);
  for (const Parameter& p : model.parameters().list()) outcome.grads[p.name] = p.value.grad().clone();
  return outcome;
}

void expect_equal(const Outcome& a, const Outcome& b, const std::string& what) {
  EXPECT_EQ(a.loss.targets, b.loss.targets);
  EXPECT_NEAR(a.loss.loss, b.loss.loss, 1e-6) << what;
  for (const auto& [name, grad] : a.grads) {
    const double difference = (grad - b.grads.at(name)).abs().max().item<double>();
    EXPECT_LE(difference, 1e-6) << what << " " << name;
  }
}

TEST(Step, MicroBatchesDoNotChangeTheGradient) {
  const Batch batch = masked_batch();
  for (const char* name : {"SATFormerForCausalLM", "TransformerForCausalLM", "MUDDFormerForCausalLM"}) {
    const auto model = tiny_model(name);
    const Outcome whole = run_step(*model, cut(batch, {6}));
    EXPECT_EQ(whole.loss.targets, 6 * 16 - (3 + 6 + 9 + 12 + 15));
    expect_equal(whole, run_step(*model, cut(batch, {3, 3})), name);
    expect_equal(whole, run_step(*model, cut(batch, {2, 2, 2})), name);
    expect_equal(whole, run_step(*model, cut(batch, {1, 1, 1, 1, 1, 1})), name);
    expect_equal(whole, run_step(*model, cut(batch, {4, 2})), name);  // a short last batch
  }
}

TEST(Step, RecomputationDoesNotChangeTheGradient) {
  const Batch batch = masked_batch();
  for (const char* name : {"SATFormerForCausalLM", "ResFormerForCausalLM", "DenseFormerForCausalLM",
                           "MUDDFormerForCausalLM", "HyperConnectionsForCausalLM"}) {
    const auto model = tiny_model(name);
    ForwardOptions recompute;
    recompute.recompute_layers = true;
    expect_equal(run_step(*model, {batch}), run_step(*model, {batch}, recompute), name);
  }
}

TEST(Step, LossIsTheMeanOverTargetsThatCount) {
  const auto model = tiny_model("SATFormerForCausalLM");
  const Batch batch = masked_batch();
  const at::Tensor losses_BT = model->losses(batch.ids_BT, batch.targets_BT, {});
  const at::Tensor counted_BT = batch.targets_BT.ne(ignored_target).to(at::kFloat);
  const double mean = (losses_BT * counted_BT).sum().item<double>() / counted_BT.sum().item<double>();
  EXPECT_NEAR(run_step(*model, {batch}).loss.loss, mean, 1e-5);
}

TEST(Step, NothingToLearnFromIsAnError) {
  const auto model = tiny_model("SATFormerForCausalLM");
  Batch batch = masked_batch();
  batch.targets_BT = at::full_like(batch.targets_BT, ignored_target);
  EXPECT_THROW(run_step(*model, {batch}), Error);
}

TEST(Step, StopsBetweenMicroBatches) {
  const auto model = tiny_model("SATFormerForCausalLM");
  int asked = 0;
  const std::vector<Batch> batches = cut(masked_batch(), {2, 2, 2});
  const StepLoss result = accumulate_gradients(*model, batches, {}, [&] { return ++asked == 3; });
  EXPECT_TRUE(result.stopped);
  EXPECT_EQ(asked, 3);
}

}  // namespace
}  // namespace satformer
