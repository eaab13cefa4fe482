// Training on generated windows, and on the marks of data that have them.
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <sstream>

#include "base/test_error.h"
#include "checkpoint/model_io.h"
#include "checkpoint/training_state.h"
#include "data/synthetic/windows.h"
#include "data/synthetic/write.h"
#include "kernels/linear_cross_entropy/linear_cross_entropy.h"
#include "train/loader.h"
#include "train/session.h"
#include "train/test_run.h"

namespace satformer {
namespace {

using testing_support::TinyRun;

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

std::vector<std::string> stream_of(const std::string& task, std::vector<std::string> more = {}) {
  std::vector<std::string> all = {"data.synthetic.task=" + task,          "data.synthetic.pairs=3",
                                  "data.synthetic.examples=60",           "data.synthetic.val_examples=70",
                                  "model.config_overrides.vocab_size=96", "data.seq_length=16"};
  all.insert(all.end(), more.begin(), more.end());
  return all;
}

TrainRequest quiet(const std::string& resume = "", std::int64_t max_steps = 0) {
  TrainRequest request;
  request.quiet = true;
  request.resume = resume;
  request.max_steps = max_steps;
  return request;
}

std::vector<Json> metrics(const std::string& run) {
  std::istringstream in(read_file(run + "/metrics.jsonl"));
  std::vector<Json> lines;
  for (std::string line; std::getline(in, line);) {
    lines.push_back(Json::parse(line));
    testing_support::erase_performance(lines.back());
  }
  return lines;
}

std::vector<Json> without_times(std::vector<Json> lines) {
  for (Json& line : lines) line.erase("progress/seconds");
  return lines;
}

std::string final_weights(const TinyRun& run) {
  return sha256_file(RunFolder(run.run()).final_path() + "/model.safetensors");
}

TEST(Stream, ResumesByteForByte) {
  const TinyRun whole, cut;
  const auto more = stream_of("mixed_recall");
  EXPECT_TRUE(train(whole.settings(more), quiet(), {}).complete);
  for (const std::int64_t at : {3, 8}) train(cut.settings(more), quiet("auto", at), {});
  EXPECT_TRUE(train(cut.settings(more), quiet("auto"), {}).complete);
  EXPECT_EQ(final_weights(whole), final_weights(cut));
  EXPECT_EQ(without_times(metrics(whole.run())), without_times(metrics(cut.run())));
  // Seconds go on over resumes.
  double before = 0;
  for (const Json& line : metrics(cut.run())) {
    if (!line.contains("progress/seconds")) continue;
    EXPECT_GE(line["progress/seconds"].get<double>(), before);
    before = line["progress/seconds"].get<double>();
  }
  EXPECT_GT(before, 0);
  EXPECT_EQ(read_training_state(RunFolder(cut.run()).checkpoints().back().path).train_data_sha256, "");
}

TEST(Stream, TrainsAsTheFilesDo) {
  const TinyRun stream, files;
  const auto more = stream_of("mqar");
  train(stream.settings(more), quiet(), {});
  SyntheticPrepareOptions prepare;
  prepare.synthetic = stream.settings(more).config().data.synthetic;
  prepare.output_dir = files.folder / "examples";
  prepare.shard_tokens = 200;
  prepare_synthetic(prepare);
  train(files.settings({"data.data_dir=" + prepare.output_dir, "model.config_overrides.vocab_size=96"}), quiet(), {});
  EXPECT_EQ(final_weights(stream), final_weights(files));
  EXPECT_EQ(without_times(metrics(stream.run())), without_times(metrics(files.run())));
  EXPECT_EQ(metrics(stream.run()).back().at("val/windows"), 70);
}

TEST(Stream, OtherExamplesThanTheCheckpointsAreRefused) {
  const TinyRun run;
  train(run.settings(stream_of("mqar")), quiet("", 5), {});
  const auto refused = [&](const std::vector<std::string>& more, ExitCode code) {
    return error_text([&] { train(run.settings(more), quiet("auto"), {}); }, code);
  };
  EXPECT_TRUE(contains(refused(stream_of("mqar", {"data.synthetic.pairs=2"}), ExitCode::config), "pairs is 2"));
  EXPECT_TRUE(contains(refused(stream_of("induction"), ExitCode::config), "task is \"induction\""));
  EXPECT_TRUE(
      contains(refused(stream_of("mqar", {"data.synthetic.example_seed=1"}), ExitCode::config), "example_seed"));
  EXPECT_TRUE(contains(refused(stream_of("mqar", {"data.targets=all"}), ExitCode::config), "targets"));
  EXPECT_FALSE(refused({"model.config_overrides.vocab_size=96"}, ExitCode::data).empty());
}

TEST(Stream, ImpossibleSettingsAreToldBeforeTraining) {
  const TinyRun run;
  const auto refused = [&](const std::vector<std::string>& more, ExitCode code = ExitCode::config) {
    return error_text([&] { train(run.settings(more), quiet(), {}); }, code);
  };
  EXPECT_TRUE(contains(refused(stream_of("mqar", {"data.synthetic.pairs=5"})), "at least 20"));
  EXPECT_TRUE(contains(refused(stream_of("mqar", {"model.config_overrides.vocab_size=7"})), "vocab_size = 7"));
  EXPECT_TRUE(contains(refused(stream_of("mqar", {"data.order=authors"})), "order"));
  EXPECT_TRUE(contains(refused(stream_of("mqar", {"data.mask_documents=true"})), "mask_documents"));
  EXPECT_TRUE(contains(refused(stream_of("recall_stories")), "tokenizer"));
  EXPECT_TRUE(contains(refused({"data.synthetic.task=mquar"}), "Did you mean 'mqar'?"));
  EXPECT_TRUE(contains(refused({"data.targets=marked"}, ExitCode::data), "no marks"));
  EXPECT_TRUE(contains(refused({"training.target_accuracy=0.9"}, ExitCode::data), "no marks"));
  EXPECT_FALSE(std::filesystem::exists(run.run()));
}

TEST(Stream, KeysWithoutEffectAreListed) {
  const TinyRun run;
  const auto has = [](const RunSettings& settings, const std::string& key) {
    return std::count(settings.unused().begin(), settings.unused().end(), key) == 1;
  };
  const RunSettings stream = run.settings(stream_of("mqar", {"data.synthetic.key_length=4"}));
  EXPECT_TRUE(has(stream, "data.synthetic.key_length") && has(stream, "data.data_dir"));
  EXPECT_FALSE(has(stream, "data.synthetic.pairs"));
  EXPECT_FALSE(stream.to_json()["data"].contains("data_dir"));
  EXPECT_TRUE(has(run.settings({"data.synthetic.pairs=4"}), "data.synthetic.pairs"));
  EXPECT_FALSE(run.settings().to_json()["data"].contains("synthetic"));
}

TEST(Stream, EndsWhereTheTargetAccuracyIsReached) {
  const TinyRun run;
  // Any accuracy is enough: the first validation ends the run.
  const auto easy = stream_of("mqar", {"training.target_accuracy=0.000001", "data.synthetic.val_examples=400",
                                       "model.config_overrides.vocab_size=14", "training.learning_rate=0.01"});
  const TrainResult result = train(run.settings(easy), quiet(), {});
  EXPECT_TRUE(result.complete);
  EXPECT_EQ(result.step, 8);
  EXPECT_EQ(RunFolder(run.run()).checkpoints().back().step, 8);
  EXPECT_TRUE(std::filesystem::exists(RunFolder(run.run()).final_path()));
  const Json last = metrics(run.run()).back();
  EXPECT_EQ(last.at("progress/target_reached"), true);
  EXPECT_EQ(last.at("val/accuracy"), last.at("val/accuracy/answer"));
  // It is over, until more is asked for.
  const std::string weights = final_weights(run);
  const TrainResult again = train(run.settings(easy), quiet("auto"), {});
  EXPECT_TRUE(again.complete);
  EXPECT_EQ(again.step, 8);
  EXPECT_EQ(final_weights(run), weights);
  auto harder = easy;
  harder.push_back("training.target_accuracy=1");
  EXPECT_EQ(train(run.settings(harder), quiet("auto"), {}).step, 20);
}

TEST(Stream, MarkedBatchesKeepTheTargetsThatCount) {
  SyntheticOptions options;
  options.task = "mixed_recall";
  const SyntheticWindows windows(options, nullptr, 0, 10);
  const std::int64_t numbers[] = {4, 2};
  BatchTargets counted;
  counted.marked = true;
  const Batch all = read_batch(windows, numbers), marked = read_batch(windows, numbers, counted);
  EXPECT_TRUE(marked.ids_BT.equal(all.ids_BT));
  for (std::int64_t row = 0; row < 2; ++row) {
    const SyntheticExample example = windows.example(numbers[row]);
    for (std::int64_t t = 0; t < 63; ++t) {
      const std::size_t next = static_cast<std::size_t>(t) + 1;
      EXPECT_EQ(all.targets_BT[row][t].item<std::int64_t>(), example.ids[next]);
      EXPECT_EQ(marked.targets_BT[row][t].item<std::int64_t>(),
                example.marks[next].counted() ? example.ids[next] : -100);
    }
    EXPECT_EQ(marked.targets_BT[row][63].item<std::int64_t>(), -100);
  }
}

TEST(Stream, AccuracyIsThatOfTheLikeliestTokens) {
  const TinyRun run;
  const RunSettings settings = run.settings(stream_of("mixed_recall"));
  const auto model = make_model(settings.architecture(), settings.config().model.config, at::kCPU);
  model->parameters().initialise(5);
  SyntheticOptions options = settings.config().data.synthetic;
  options.pairs = 4;
  const SyntheticWindows windows(options, nullptr, 0, 50);
  KindAccuracy expected;
  double loss = 0;
  for (std::int64_t i = 0; i < 50; ++i) {
    const std::int64_t number[] = {i};
    const Batch batch = read_batch(windows, number);
    const at::Tensor logits = model->logits(batch.ids_BT, {})[0].detach();
    const SyntheticExample example = windows.example(i);
    for (std::size_t t = 1; t < 16; ++t) {
      if (!example.marks[t].counted()) continue;
      const at::Tensor row = logits[static_cast<std::int64_t>(t) - 1];
      const bool hit = row.argmax().item<std::int64_t>() == example.ids[t];
      expected.kinds[static_cast<std::size_t>(example.marks[t].kind())].add(hit);
      loss -= row.log_softmax(0)[example.ids[t]].item<double>();
    }
  }
  EXPECT_EQ(expected.all().targets, 200);
  EXPECT_EQ(expected.kinds[static_cast<std::size_t>(TokenKind::raw)].targets, 100);
  for (const bool marked : {true, false}) {
    WindowLossOptions how;
    how.batch_size = 7;
    how.marked = marked;
    double counted_loss = 0;
    std::int64_t windows_seen = 0;
    how.scored = [&](const WindowScore& score) {
      EXPECT_EQ(score.window, windows_seen++);
      counted_loss += score.counted_loss;
    };
    const WindowLoss result = window_loss(*model, windows, how);
    for (std::size_t kind = 0; kind < num_token_kinds; ++kind) {
      EXPECT_EQ(result.accuracy.kinds[kind].correct, expected.kinds[kind].correct) << marked;
      EXPECT_EQ(result.accuracy.kinds[kind].targets, expected.kinds[kind].targets);
    }
    EXPECT_NEAR(counted_loss, loss, 1e-3);
    EXPECT_EQ(result.targets, marked ? 200 : 50 * 16);
    if (marked) {
      EXPECT_NEAR(result.loss_sum, loss, 1e-3);
    }
  }
}

// A model that gives every token the same logit is right where the target is the first id alone.
TEST(Stream, EqualLogitsAreNoHits) {
  const TinyRun run;
  const RunSettings settings = run.settings(stream_of("mqar"));
  const auto model = make_model(settings.architecture(), settings.config().model.config, at::kCPU);
  for (Parameter& p : model->parameters().list()) p.value.detach().zero_();
  const SyntheticWindows windows(settings.config().data.synthetic, nullptr, 0, 20);
  WindowLossOptions how;
  how.marked = true;
  const WindowLoss result = window_loss(*model, windows, how);
  EXPECT_EQ(result.accuracy.all().targets, 60);
  EXPECT_EQ(result.accuracy.all().correct, 0);
  EXPECT_NEAR(result.mean(), std::log(96.0), 1e-5);
}

}  // namespace
}  // namespace satformer
