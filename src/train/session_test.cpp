#include "train/session.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <nlohmann/json.hpp>
#include <sstream>

#include "base/test_error.h"
#include "checkpoint/model_io.h"
#include "checkpoint/training_state.h"
#include "io/safetensors.h"
#include "train/estimate.h"
#include "train/test_run.h"

namespace satformer {
namespace {

namespace fs = std::filesystem;
using testing_support::TinyRun;

TrainRequest quiet(const std::string& resume = "", std::int64_t max_steps = 0) {
  TrainRequest request;
  request.quiet = true;
  request.resume = resume;
  request.max_steps = max_steps;
  return request;
}

std::string message(const auto& action, ExitCode code) { return error_text(action, code); }

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

std::vector<Json> metrics(const std::string& run) {
  std::istringstream in(read_file(run + "/metrics.jsonl"));
  std::vector<Json> lines;
  for (std::string line; std::getline(in, line);) {
    lines.push_back(Json::parse(line));
    testing_support::erase_performance(lines.back());
    lines.back().erase("progress/seconds");
  }
  return lines;
}

void expect_same_run(const std::string& a, const std::string& b) {
  for (const char* file : {"/final/model.safetensors", "/checkpoints/step-00000020/model.safetensors",
                           "/checkpoints/step-00000020/optimizer.safetensors"}) {
    EXPECT_EQ(sha256_file(a + file), sha256_file(b + file)) << file;
  }
  EXPECT_EQ(metrics(a), metrics(b));
}

TEST(Session, TrainsValidatesAndKeepsTheLastCheckpoints) {
  const TinyRun run;
  const TrainResult result = train(run.settings({"checkpointing.keep_last=2"}), quiet(), {});
  EXPECT_TRUE(result.complete);
  EXPECT_EQ(result.step, 20);
  EXPECT_EQ(result.validation.windows, 65);  // the full set
  std::vector<std::int64_t> steps;
  for (const auto& entry : RunFolder(run.run()).checkpoints()) steps.push_back(entry.step);
  EXPECT_EQ(steps, (std::vector<std::int64_t>{15, 20}));

  const std::vector<Json> lines = metrics(run.run());
  std::vector<std::int64_t> logged, validated;
  for (const Json& line : lines) {
    const auto step = line.at("progress/step").get<std::int64_t>();
    if (line.contains("train/loss")) {
      logged.push_back(step);
      EXPECT_EQ(line.at("progress/tokens_B").get<double>(), static_cast<double>(step) * 128 / 1e9);
      EXPECT_TRUE(line.contains("train/lr") && line.contains("train/grad_norm"));
    }
    if (line.contains("val/loss")) {
      validated.push_back(step);
      EXPECT_NEAR(std::log(line.at("val/perplexity").get<double>()), line.at("val/loss").get<double>(), 1e-9);
      EXPECT_EQ(line.at("val/windows").get<int>(), step == 20 ? 65 : 64);
    }
  }
  EXPECT_EQ(logged, (std::vector<std::int64_t>{3, 6, 9, 12, 15, 18, 20}));
  EXPECT_EQ(validated, (std::vector<std::int64_t>{8, 16, 20}));
  EXPECT_LT(lines.back().at("train/loss").get<double>(), lines.front().at("train/loss").get<double>());

  const LoadedModel loaded = load_model(run.run() + "/final", at::Device(c10::DeviceType::CPU));
  EXPECT_EQ(loaded.model->architecture(), "satformer");
}

TEST(Session, LoggedLossIsTheMeanOfTheStepsWhateverTheAccumulation) {
  const TinyRun a, b;
  const std::vector<std::string> each_step = {"logging.log_interval=1"};
  train(a.settings(each_step), quiet("", 7), {});
  train(b.settings(), quiet("", 7), {});
  const auto every = metrics(a.run()), third = metrics(b.run());
  double sum = 0;
  for (std::size_t i = 0; i < 3; ++i) sum += every[i].at("train/loss").get<double>();
  EXPECT_NEAR(third[0].at("train/loss").get<double>(), sum / 3, 1e-12);
  EXPECT_NEAR(every[0].at("train/loss").get<double>(), std::log(32.0), 0.2);
}

TEST(Session, ResumedRunEqualsTheUnbrokenOne) {
  const TinyRun whole;
  train(whole.settings(), quiet(), {});
  for (const std::int64_t at : {1, 5, 8, 13, 20}) {
    const TinyRun cut;
    train(cut.settings(), quiet("auto", at), {});
    EXPECT_TRUE(train(cut.settings(), quiet("auto"), {}).complete);
    SCOPED_TRACE(at);
    expect_same_run(whole.run(), cut.run());
  }
}

TEST(Session, EveryArchitectureResumesExactly) {
  for (const char* name : {"TransformerForCausalLM", "ResFormerForCausalLM", "DenseFormerForCausalLM",
                           "MUDDFormerForCausalLM", "HyperConnectionsForCausalLM"}) {
    SCOPED_TRACE(name);
    const TinyRun whole(name), cut(name);
    train(whole.settings(), quiet(), {});
    train(cut.settings(), quiet("", 7), {});
    train(cut.settings(), quiet("auto"), {});
    expect_same_run(whole.run(), cut.run());
  }
}

TEST(Session, BfloatWithRecomputationOnTwoThreadsResumesExactly) {
  const TinyRun whole, cut;
  const std::vector<std::string> more = {"training.dtype=bfloat16", "training.gradient_checkpointing=true",
                                         "system.threads=2"};
  train(whole.settings(more), quiet(), {});
  train(cut.settings(more), quiet("", 11), {});
  train(cut.settings(more), quiet("auto"), {});
  expect_same_run(whole.run(), cut.run());
}

// As the authors train: ResFormer's lambda_scale starts at the number of layers and never moves (spec: bf16 steps at
// 2 are 1/64, the rate is 0.003); stochastic rounding moves it.
TEST(Session, PureBfloatTrainsResumesAndNamesWhatStandsStill) {
  for (const char* rounding : {"nearest", "stochastic"}) {
    SCOPED_TRACE(rounding);
    const std::vector<std::string> pure = {"training.dtype=pure-bfloat16",
                                           std::string("training.rounding=") + rounding, "logging.frozen_interval=5"};
    const TinyRun whole("ResFormerForCausalLM"), cut("ResFormerForCausalLM");
    train(whole.settings(pure), quiet(), {});
    train(cut.settings(pure), quiet("", 10), {});
    EXPECT_TRUE(train(cut.settings(pure), quiet("auto"), {}).complete);
    expect_same_run(whole.run(), cut.run());
    const std::vector<Json> lines = metrics(whole.run());
    double first = 0, last = 0;
    bool scale_frozen = false;
    for (const Json& line : lines) {
      if (line.contains("train/loss")) (first == 0 ? first : last) = line["train/loss"].get<double>();
      if (!line.contains("train/frozen")) continue;
      EXPECT_GT(line["train/still_share"].get<double>(), 0);
      for (const Json& name : line["train/frozen"]) scale_frozen |= name == "model.lambda_manager.lambda_scale";
    }
    EXPECT_LT(last, first);
    const bool nearest = std::string(rounding) == "nearest";
    if (nearest) {
      EXPECT_TRUE(scale_frozen);
    }
    const SafetensorsFile file(RunFolder(whole.run()).final_path() + "/model.safetensors");
    const TensorView& scale = *file.find("model.lambda_manager.lambda_scale");
    EXPECT_EQ(scale.dtype, "BF16");
    std::uint16_t bits = 0;
    std::memcpy(&bits, scale.data.data(), 2);
    EXPECT_EQ(bits == 0x4000, nearest);  // 2.0
    EXPECT_EQ(read_model_config(whole.run()).at("dtype"), "bfloat16");
  }
  const TinyRun run;
  EXPECT_TRUE(
      contains(message([&] { run.settings({"training.rounding=stochastic"}); }, ExitCode::config), "pure-bfloat16"));
}

TEST(Session, WindowsAfterResumeAreTheTwins) {
  const TinyRun whole, cut;
  TrainRequest request = quiet();
  request.window_log = whole.folder / "windows";
  train(whole.settings(), request, {});
  request = quiet("", 10);
  request.window_log = cut.folder / "windows";
  train(cut.settings(), request, {});
  request.resume = "auto";
  request.max_steps = 0;
  train(cut.settings(), request, {});
  const std::string lines = read_file(whole.folder / "windows");
  EXPECT_EQ(lines, read_file(cut.folder / "windows"));
  EXPECT_EQ(std::count(lines.begin(), lines.end(), '\n'), 20 * 8);
}

TEST(Session, TheAuthorsOrderResumesExactly) {
  const std::vector<std::string> more = {"data.order=authors", "data.order_ranks=2", "data.order_workers=3"};
  const TinyRun whole, cut;
  TrainRequest request = quiet();
  request.window_log = whole.folder / "windows";
  EXPECT_TRUE(train(whole.settings(more), request, {}).complete);
  request = quiet("", 7);
  request.window_log = cut.folder / "windows";
  train(cut.settings(more), request, {});
  request.resume = "auto";
  request.max_steps = 0;
  train(cut.settings(more), request, {});
  expect_same_run(whole.run(), cut.run());
  const std::string lines = read_file(whole.folder / "windows");
  EXPECT_EQ(lines, read_file(cut.folder / "windows"));
  EXPECT_TRUE(contains(lines, "\n2 ")) << "the third epoch was not reached";
  // 15 targets in a window of 16: 20 steps of 8 windows.
  EXPECT_EQ(read_training_state(cut.run() + "/checkpoints/step-00000020").tokens, 20 * 8 * 15);
  EXPECT_TRUE(contains(message([&] { train(cut.settings(), quiet("auto"), {}); }, ExitCode::config), "data.order"));
}

TEST(Session, KeysThatACheckpointDoesNotKnowHadTheDefault) {
  const TinyRun run;
  train(run.settings(), quiet("", 5), {});
  const std::string checkpoint = run.run() + "/checkpoints/step-00000005";
  Json config = read_json_file(checkpoint + "/run_config.json");
  config["data"].erase("order");
  write_file_atomic(checkpoint + "/run_config.json", config.dump());
  Json state = read_json_file(checkpoint + "/state.json");
  state["format"] = 1;  // which held no hash of state.json itself
  state["sha256"].erase("state.json");
  state["sha256"]["run_config.json"] = sha256_file(checkpoint + "/run_config.json");
  write_file_atomic(checkpoint + "/state.json", state.dump());
  EXPECT_TRUE(contains(message(
                           [&] {
                             train(run.settings({"data.order=authors", "data.order_workers=1"}), quiet("auto"), {});
                           },
                           ExitCode::config),
                       "data.order is \"authors\", the checkpoint has \"shuffled\""));
  EXPECT_EQ(train(run.settings(), quiet("auto", 6), {}).step, 6);
}

TEST(Session, StopRequestWithinAStepLosesNothing) {
  const TinyRun whole;
  train(whole.settings(), quiet(), {});
  for (const int calls : {1, 3, 6, 21, 44, 52, 80}) {  // between micro-batches, and within validations
    const TinyRun cut;
    int asked = 0;
    TrainHooks hooks;
    hooks.stop = [&] { return ++asked >= calls; };
    const TrainResult stopped = train(cut.settings(), quiet(), hooks);
    EXPECT_TRUE(stopped.stopped);
    EXPECT_FALSE(stopped.complete);
    train(cut.settings(), quiet("auto"), {});
    SCOPED_TRACE(calls);
    expect_same_run(whole.run(), cut.run());
  }
}

TEST(Session, NonFiniteLossStopsBeforeTheUpdate) {
  const TinyRun run;
  TrainHooks hooks;
  hooks.on_step = [](Model& model, std::int64_t step) {
    if (step == 12) model.parameters().list()[3].value.detach().view(-1)[0].fill_(std::nan(""));
  };
  const std::string text = message([&] { train(run.settings(), quiet(), hooks); }, ExitCode::non_finite);
  EXPECT_TRUE(contains(text, "step 13") && contains(text, "step-00000010")) << text;
  const auto checkpoints = RunFolder(run.run()).checkpoints();
  ASSERT_EQ(checkpoints.back().step, 10);
  const LoadedModel loaded = load_model(checkpoints.back().path, at::Device(c10::DeviceType::CPU));
  for (const Parameter& p : loaded.model->parameters().list()) {
    EXPECT_TRUE(std::isfinite(p.value.detach().abs().sum().item<double>())) << p.name;
  }
}

TEST(Session, APretrainedModelSaysWhatItIs) {
  const TinyRun run;
  train(run.settings(), quiet("", 1), {});
  const std::string from = RunFolder(run.run()).checkpoints().back().path;
  const std::vector<std::string> pretrained = {"model.from_pretrained=true", "model.pretrained_path=" + from,
                                               "data.seq_length=16"};
  const auto settings = [&](std::vector<std::string> more) {
    ConfigSources sources;
    sources.overrides = pretrained;
    sources.overrides.insert(sources.overrides.end(), more.begin(), more.end());
    return RunSettings(sources);
  };
  EXPECT_EQ(settings({}).config().model.class_name, "SATFormerForCausalLM");
  EXPECT_TRUE(settings({}).unused().empty());
  EXPECT_TRUE(settings({"model.class_name=satformer"}).changed_from_pretrained().empty());
  const std::string other = message([&] { settings({"model.class_name=ResFormerForCausalLM"}); }, ExitCode::config);
  EXPECT_TRUE(contains(other, "ResFormerForCausalLM") && contains(other, "SATFormerForCausalLM")) << other;
  const auto changed = settings({"model.config_overrides.rope_theta=5"}).changed_from_pretrained();
  ASSERT_EQ(changed.size(), 1u);
  EXPECT_TRUE(contains(changed[0], "rope_theta is 5") && contains(changed[0], "10000")) << changed[0];
}

TEST(Session, MasksOfDocumentsNeedDocuments) {
  const TinyRun run;
  const std::string text = message(
      [&] {
        train(run.settings({"data.mask_documents=true", "model.config_overrides.vocab_size=40",
                            "model.config_overrides.eos_token_id=39"}),
              quiet(), {});
      },
      ExitCode::data);
  EXPECT_TRUE(contains(text, "mask_documents") && contains(text, "id 39")) << text;
  train(run.settings({"data.mask_documents=true", "model.config_overrides.eos_token_id=7"}), quiet("", 1), {});
}

TEST(Session, RunawayRateNeverSavesNonFiniteWeights) {
  const TinyRun run;
  const auto settings =
      run.settings({"training.learning_rate=1e30", "training.warmup_tokens=0", "training.weight_decay=0",
                    "checkpointing.checkpoint_interval=1", "training.grad_clip=0"});
  EXPECT_FALSE(message([&] { train(settings, quiet(), {}); }, ExitCode::non_finite).empty());
  for (const auto& entry : RunFolder(run.run()).checkpoints()) {
    const LoadedModel loaded = load_model(entry.path, at::Device(c10::DeviceType::CPU));
    for (const Parameter& p : loaded.model->parameters().list()) {
      EXPECT_TRUE(std::isfinite(p.value.detach().to(at::kDouble).abs().sum().item<double>())) << p.name;
    }
  }
}

TEST(Session, AnotherRunsFolderIsNotOverwritten) {
  const TinyRun run;
  train(run.settings(), quiet("", 5), {});
  const std::string text = message([&] { train(run.settings(), quiet(), {}); }, ExitCode::usage);
  EXPECT_TRUE(contains(text, "--resume auto") && contains(text, "step 5")) << text;
  TrainRequest request = quiet("", 2);
  request.overwrite = true;
  train(run.settings(), request, {});
  const auto checkpoints = RunFolder(run.run()).checkpoints();
  ASSERT_EQ(checkpoints.size(), 1u);
  EXPECT_EQ(checkpoints[0].step, 2);
}

TEST(Session, OlderCheckpointIsResumedOnlyWhenAskedTwice) {
  const TinyRun run;
  train(run.settings(), quiet("", 10), {});
  const std::string older = RunFolder(run.run()).checkpoint_path(5);
  const std::string text = message([&] { train(run.settings(), quiet(older), {}); }, ExitCode::usage);
  EXPECT_TRUE(contains(text, "step 10")) << text;
  TrainRequest request = quiet(older, 6);
  request.overwrite = true;
  EXPECT_EQ(train(run.settings(), request, {}).step, 6);
  EXPECT_EQ(RunFolder(run.run()).checkpoints().back().step, 6);
  // Into another folder, no question arises.
  EXPECT_EQ(train(run.settings({"checkpointing.checkpoint_dir=" + (run.folder / "fork")}), quiet(older, 7), {}).step,
            7);
}

TEST(Session, ResumeRefusesOtherSettings) {
  const TinyRun run;
  train(run.settings(), quiet("", 5), {});
  const auto refused = [&](const std::string& override, ExitCode code) {
    return message([&] { train(run.settings({override}), quiet("auto"), {}); }, code);
  };
  std::string text = refused("model.class_name=TransformerForCausalLM", ExitCode::checkpoint);
  EXPECT_TRUE(contains(text, "SATFormer") && contains(text, "Transformer")) << text;
  text = refused("model.config_overrides.num_hidden_layers=3", ExitCode::checkpoint);
  EXPECT_TRUE(contains(text, "num_hidden_layers is 3") && contains(text, "2")) << text;
  refused("training.batch_size=4", ExitCode::config);
  refused("training.learning_rate=0.001", ExitCode::config);
  refused("system.seed=1", ExitCode::config);

  std::vector<std::string> notes;
  TrainRequest request = quiet("auto");
  request.note = [&](std::string_view note) { notes.emplace_back(note); };
  EXPECT_EQ(train(run.settings({"training.max_tokens=0.00000384", "logging.log_interval=2"}), request, {}).step, 30);
  EXPECT_TRUE(
      std::any_of(notes.begin(), notes.end(), [](const auto& n) { return contains(n, "training.max_tokens"); }));
}

TEST(Session, ResumeRefusesOtherData) {
  const TinyRun run;
  train(run.settings(), quiet("", 5), {});
  testing_support::write_shard(run.folder / "data/train_00002.bin", 300, 32, 9);
  const std::string text = message([&] { train(run.settings(), quiet("auto"), {}); }, ExitCode::data);
  EXPECT_TRUE(contains(text, "74") && contains(text, "92")) << text;
}

TEST(Session, ResumeRefusesOtherDataOfTheSameSize) {
  const TinyRun run;
  train(run.settings(), quiet("", 5), {});
  testing_support::write_shard(run.folder / "data/train_00001.bin", 500, 32, 9);
  const std::string text = message([&] { train(run.settings(), quiet("auto"), {}); }, ExitCode::data);
  EXPECT_TRUE(contains(text, "SHA-256 differs")) << text;
  testing_support::write_shard(run.folder / "data/train_00001.bin", 500, 32, 2);
  EXPECT_EQ(train(run.settings(), quiet("auto", 6), {}).step, 6);
}

TEST(Session, RefusedDataLeaveNoRunFolder) {
  const TinyRun run;
  testing_support::write_shard(run.folder / "data/train_00001.bin", 500, 40, 9);
  const std::string text = message([&] { train(run.settings(), quiet(), {}); }, ExitCode::data);
  EXPECT_TRUE(contains(text, "train_00001.bin")) << text;
  EXPECT_FALSE(fs::exists(run.run()));
}

TEST(Session, DamagedNewestCheckpointNamesTheWholeOneBefore) {
  const TinyRun run;
  train(run.settings(), quiet("", 15), {});
  const RunFolder folder(run.run());
  for (const std::int64_t damaged : {15, 10})
    fs::resize_file(folder.checkpoint_path(damaged) + "/model.safetensors", 99);
  std::string text = message([&] { train(run.settings(), quiet("auto"), {}); }, ExitCode::checkpoint);
  EXPECT_TRUE(contains(text, "step-00000015/model.safetensors") &&
              contains(text, "--resume " + folder.checkpoint_path(5)))
      << text;
  fs::remove(folder.checkpoint_path(15) + "/state.json");
  text = message([&] { train(run.settings(), quiet("auto"), {}); }, ExitCode::checkpoint);
  EXPECT_TRUE(contains(text, folder.checkpoint_path(5))) << text;
  TrainRequest request = quiet(folder.checkpoint_path(5), 6);
  request.overwrite = true;
  EXPECT_EQ(train(run.settings(), request, {}).step, 6);
}

TEST(Session, ExtendedRunsNewestModelIsItsCheckpoint) {
  const TinyRun run;
  train(run.settings(), quiet(), {});
  EXPECT_EQ(resolve_model_directory(run.run()), RunFolder(run.run()).final_path());
  const std::vector<std::string> longer = {"training.max_tokens=0.00000384"};
  train(run.settings(longer), quiet("auto", 25), {});
  EXPECT_EQ(resolve_model_directory(run.run()), RunFolder(run.run()).checkpoint_path(25));
  train(run.settings(longer), quiet("auto"), {});
  EXPECT_EQ(resolve_model_directory(run.run()), RunFolder(run.run()).final_path());
}

TEST(Session, DamagedCheckpointIsNamed) {
  for (const char* file : {"model.safetensors", "optimizer.safetensors", "config.json", "run_config.json"}) {
    for (const bool cut : {false, true}) {
      const TinyRun run;
      train(run.settings(), quiet("", 3), {});
      const std::string path = RunFolder(run.run()).checkpoint_path(3) + "/" + file;
      std::string bytes = read_file(path);
      if (cut) {
        bytes.resize(bytes.size() / 2);
      } else {
        bytes[bytes.size() * 3 / 4] ^= 1;
      }
      std::ofstream(path, std::ios::binary) << bytes;
      const std::string text = message([&] { train(run.settings(), quiet("auto"), {}); }, ExitCode::checkpoint);
      EXPECT_TRUE(contains(text, file)) << text;
    }
  }
  const TinyRun run;
  EXPECT_FALSE(message([&] { train(run.settings(), quiet(run.folder.path()), {}); }, ExitCode::checkpoint).empty());
}

TEST(Session, LeftoversAreIgnoredAndRemoved) {
  const TinyRun run;
  train(run.settings(), quiet("", 5), {});
  const std::string leftover = run.run() + "/checkpoints/.tmp-step-00000010";
  fs::create_directories(leftover);
  write_file_atomic(leftover + "/model.safetensors", "half");
  train(run.settings(), quiet("auto", 6), {});
  EXPECT_FALSE(fs::exists(leftover));
  EXPECT_EQ(RunFolder(run.run()).checkpoints().back().step, 6);
}

TEST(Session, DataIsCheckedBeforeTraining) {
  const TinyRun run;
  testing_support::write_shard(run.folder / "data/short_00000.bin", 16, 32, 4);
  testing_support::write_shard(run.folder / "data/window_00000.bin", 17, 32, 4);
  const auto refused = [&](const std::vector<std::string>& more) {
    return message([&] { train(run.settings(more), quiet(), {}); }, ExitCode::data);
  };
  for (const char* key : {"data.train_prefix", "data.val_prefix"}) {
    EXPECT_TRUE(contains(refused({std::string(key) + "=nothing"}), "nothing"));
    const std::string text = refused({std::string(key) + "=short"});
    EXPECT_TRUE(contains(text, "16") && contains(text, "17")) << text;
  }
  const std::string text = refused({"model.config_overrides.vocab_size=31"});
  EXPECT_TRUE(contains(text, "31") && contains(text, "train_0000")) << text;
  EXPECT_EQ(train(run.settings({"data.train_prefix=window"}), quiet("", 2), {}).step, 2);
}

TEST(Session, TokenizerTravelsWithTheModel) {
  const TinyRun run;
  const auto settings = run.settings({"tokenizer.name_or_path=byte", "model.config_overrides.vocab_size=259"});
  train(settings, quiet("", 2), {});
  EXPECT_EQ(load_tokenizer(RunFolder(run.run()).checkpoint_path(2))->vocab_size(), 259);
  const std::string text =
      message([&] { train(run.settings({"tokenizer.name_or_path=byte"}), quiet(), {}); }, ExitCode::config);
  EXPECT_TRUE(contains(text, "259") && contains(text, "32")) << text;
}

TEST(Session, StartsFromPretrainedWeights) {
  const TinyRun run;
  train(run.settings(), quiet("", 5), {});
  ConfigSources sources;
  for (const std::string& o : run.overrides) {
    if (!o.starts_with("model.")) sources.overrides.push_back(o);  // taken from the checkpoint
  }
  sources.overrides.push_back("model.from_pretrained=true");
  sources.overrides.push_back("model.pretrained_path=" + run.run());
  sources.overrides.push_back("checkpointing.checkpoint_dir=" + (run.folder / "second"));
  sources.overrides.push_back("training.learning_rate=0");
  sources.overrides.push_back("training.min_lr=0");
  const RunSettings settings(sources);
  EXPECT_EQ(settings.config().model.config.hidden_size, 32);
  train(settings, quiet("", 1), {});
  EXPECT_EQ(sha256_file(run.run() + "/checkpoints/step-00000005/model.safetensors"),
            sha256_file((run.folder / "second") + "/checkpoints/step-00000001/model.safetensors"));
}

TEST(Session, ValidationDoesNotDependOnTheBatch) {
  const TinyRun run;
  const auto settings = run.settings();
  const auto model =
      make_model(settings.architecture(), settings.config().model.config, at::Device(c10::DeviceType::CPU));
  model->parameters().initialise(1);
  const TokenWindows windows(std::make_shared<TokenShards>(run.folder / "data", "val"), 16);
  ASSERT_EQ(windows.size(), 65);
  const auto loss_at = [&](std::int64_t batch) {
    WindowLossOptions options;
    options.batch_size = batch;
    return window_loss(*model, windows, options);
  };
  const double one = loss_at(1).mean();
  for (const std::int64_t batch : {7, 64, 65, 100}) {
    const WindowLoss result = loss_at(batch);
    EXPECT_NEAR(result.mean(), one, 1e-6);
    EXPECT_EQ(result.windows, 65);
    EXPECT_EQ(result.targets, 65 * 16);
  }
}

TEST(Session, DryRunSaysWhereItWouldGoOn) {
  const TinyRun run;
  TrainRequest request = quiet("auto");
  EXPECT_TRUE(contains(describe_run(run.settings(), request), "a new run"));
  train(run.settings(), quiet("", 5), {});
  const std::string text = describe_run(run.settings(), request);
  EXPECT_TRUE(contains(text, "step-00000005, 15 steps left")) << text;
  EXPECT_TRUE(
      contains(message([&] { describe_run(run.settings({"training.batch_size=4"}), request); }, ExitCode::config),
               "batch_size"));
  EXPECT_TRUE(contains(message([&] { describe_run(run.settings({"system.device=cude"}), {}); }, ExitCode::config),
                       "Did you mean 'cuda'?"));
  EXPECT_TRUE(contains(describe_run(run.settings({"system.device=cuda:3"}), {}), "peak memory"));
}

TEST(Session, DryRunCountsWithoutDataOrWeights) {
  ConfigSources sources;
  sources.overrides = {"data.data_dir=/nonexistent",
                       "model.config_overrides.hidden_size=768",
                       "model.config_overrides.num_hidden_layers=11",
                       "model.config_overrides.num_heads=12",
                       "model.config_overrides.intermediate_size=3072",
                       "model.config_overrides.qk_norm=true",
                       "model.config_overrides.tie_word_embeddings=true",
                       "model.config_overrides.max_position_embeddings=4096",
                       "data.seq_length=4096",
                       "training.batch_size=64",
                       "training.gradient_accumulation_steps=1",
                       "training.max_tokens=5"};
  const RunSettings settings(sources);
  const std::string text = describe_run(settings, {});
  EXPECT_TRUE(contains(text, "128,496,")) << text;  // spec: 128.496 M
  EXPECT_TRUE(contains(text, "19,073")) << text;
  EXPECT_TRUE(contains(text, "missing: ")) << text;
  const auto model =
      make_model(settings.architecture(), settings.config().model.config, at::Device(c10::DeviceType::Meta));
  const ParameterCount count = count_parameters(*model);
  const Flops flops = training_flops(*model, 4096);
  EXPECT_DOUBLE_EQ(flops.matmul_per_token, 6.0 * static_cast<double>(count.total));  // tied: the table is the head
  EXPECT_DOUBLE_EQ(flops.attention_per_token, 6.0 * 11 * 4096 * 768);
  std::int64_t sum = 0;
  for (const auto& part : count.parts) sum += part.second;
  EXPECT_EQ(sum, count.total);
}

}  // namespace
}  // namespace satformer
