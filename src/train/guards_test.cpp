#include "train/guards.h"

#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <chrono>
#include <cmath>
#include <thread>

#include "base/test_error.h"
#include "checkpoint/training_state.h"
#include "train/session.h"
#include "train/stop.h"
#include "train/test_run.h"
#include "train/window_log.h"

namespace satformer {
namespace {

namespace fs = std::filesystem;
using testing_support::TinyRun;

SpikeOptions spike_options(const std::string& action = "skip") {
  SpikeOptions options;
  options.action = action;
  options.window = 8;
  options.limit = 2;
  return options;
}

void calm(SpikeGuard& guard, int steps) {
  for (int i = 0; i < steps; ++i) EXPECT_FALSE(guard.look(3 + 0.01 * (i % 3), 1 + 0.01 * (i % 2)));
}

TEST(MedianSpread, IsThatOfTheValues) {
  EXPECT_EQ(median_spread({5}).median, 5);
  const MedianSpread even = median_spread({4, 1, 2, 100});
  EXPECT_EQ(even.median, 3);
  EXPECT_NEAR(even.deviation, 1.4826 * 1.5, 1e-12);  // distances 1, 2, 1, 97
  EXPECT_NEAR(median_spread({1, 2, 3, 4, 9}).deviation, 1.4826, 1e-12);
}

TEST(SpikeGuard, SeesSpikesOfLossAndNormOnceItKnowsEnough) {
  SpikeGuard guard(spike_options());
  EXPECT_FALSE(guard.look(3, 1));
  EXPECT_FALSE(guard.bounds());
  EXPECT_FALSE(guard.look(100, 1)) << "too few steps are known";
  calm(guard, 8);
  ASSERT_TRUE(guard.bounds());
  EXPECT_TRUE(guard.look(guard.bounds()->loss + 0.01, 1));
  EXPECT_TRUE(guard.look(3, guard.bounds()->norm + 0.01));
  EXPECT_FALSE(guard.look(guard.bounds()->loss - 0.01, 1));
  EXPECT_FALSE(guard.look(0.5, 0.01)) << "a fall is no spike";
}

TEST(SpikeGuard, OffSeesNothing) {
  SpikeGuard guard(spike_options("none"));
  calm(guard, 20);
  EXPECT_FALSE(guard.look(1e9, 1e9));
  EXPECT_EQ(guard.state(), "");
}

TEST(SpikeGuard, EndsARunWithTooMany) {
  SpikeGuard guard(spike_options());
  calm(guard, 8);
  guard.count(9, 99, 1);
  calm(guard, 7);
  guard.count(17, 99, 1);
  EXPECT_NE(error_text([&] { guard.count(18, 99, 1); }, ExitCode::non_finite).find("step 18"), std::string::npos);
  SpikeGuard slow(spike_options());
  calm(slow, 8);
  for (int i = 0; i < 10; ++i) {
    slow.count(9 * i, 99, 1);
    calm(slow, 8);
  }
}

TEST(SpikeGuard, StateGoesOnAsIfUnbroken) {
  SpikeGuard a(spike_options()), b(spike_options());
  calm(a, 11);
  a.count(12, 99, 1);
  b.restore(a.state());
  EXPECT_EQ(b.state(), a.state());
  EXPECT_EQ(b.bounds()->loss, a.bounds()->loss);
  EXPECT_EQ(b.counted(), 1);
  SpikeGuard c(spike_options());
  c.count(1, 9, 9);
  c.count(2, 9, 9);
  c.restore(a.state(), true);
  EXPECT_EQ(c.counted(), 2);
  for (const char* text : {"{", "[]", "{\"losses\":[1],\"norms\":[],\"spikes\":0,\"calm_steps\":0}"}) {
    error_text([&] { c.restore(text); }, ExitCode::checkpoint);
  }
}

TEST(Duration, IsReadAsSchedulersWriteIt) {
  const auto seconds = [](const char* text) { return parse_duration(text, "--max-time"); };
  EXPECT_EQ(seconds("90"), 90);
  EXPECT_EQ(seconds("1.5m"), 90);
  EXPECT_EQ(seconds("2h"), 7200);
  EXPECT_EQ(seconds("1d"), 86400);
  EXPECT_EQ(seconds("01:30"), 90);
  EXPECT_EQ(seconds("2:00:01"), 7201);
  EXPECT_EQ(seconds("1-02:00:00"), 93600);
  for (const char* text : {"", "x", "0", "-5", "5x", "1:", ":1", "1-2", "1-1:00", "1:2:3:4", "nan", "inf", "1e3"}) {
    EXPECT_NE(error_text([&] { seconds(text); }, ExitCode::usage).find("--max-time"), std::string::npos) << text;
  }
}

TEST(TimeLimit, LeavesRoomForASaveAndAPass) {
  const auto now = TimeLimit::Clock::now();
  EXPECT_FALSE(TimeLimit().over(now));
  TimeLimit limit(now + std::chrono::seconds(100));
  limit.expect_save(60);
  EXPECT_FALSE(limit.over(now));  // 91 s are needed
  limit.saw_pass(10);
  EXPECT_TRUE(limit.over(now));  // 106
  limit.saw_save(2);             // faster than thought
  EXPECT_FALSE(limit.over(now + std::chrono::seconds(80)));
  EXPECT_TRUE(limit.over(now + std::chrono::seconds(82)));
}

TEST(StopSignals, AnnouncementsAskAndDoNotHurry) {
  const StopSignals signals;
  EXPECT_FALSE(StopSignals::requested());
  raise(SIGUSR1);
  EXPECT_TRUE(StopSignals::requested());
  EXPECT_EQ(StopSignals::exit_code(), ExitCode::out_of_time);
  raise(SIGUSR2);
  raise(SIGTERM);  // the scheduler's next; it would end a run that was stopping for any other reason
  EXPECT_EQ(StopSignals::exit_code(), ExitCode::terminated);
}

TEST(WindowLog, IsCutWhereTheRunGoesOn) {
  const TinyRun run;
  TrainRequest request;
  request.quiet = true;
  request.window_log = run.folder / "windows";
  request.max_steps = 10;
  train(run.settings(), request, {});
  const std::string whole = read_file(request.window_log);
  for (const std::string& left : {whole + "0 1 9\n0 0", whole + "0 9", whole}) {
    TinyRun other;
    request.window_log = other.folder / "windows";
    request.max_steps = 5;
    request.resume = "";
    train(other.settings(), request, {});
    write_file_atomic(request.window_log, left);  // what a run that was killed in step 11 left
    request.max_steps = 10;
    request.resume = "auto";
    train(other.settings(), request, {});
    EXPECT_EQ(read_file(request.window_log), whole);
  }
}

TEST(Async, SavesTheSame) {
  const TinyRun a, b;
  TrainRequest request;
  request.quiet = true;
  const TrainResult done = train(a.settings({"checkpointing.keep_last=2"}), request, {});
  const TrainResult background =
      train(b.settings({"checkpointing.async=true", "checkpointing.keep_last=2"}), request, {});
  EXPECT_EQ(fs::path(background.checkpoint).filename(), fs::path(done.checkpoint).filename());
  for (const char* step : {"15", "20"}) {
    for (const char* file : {"model.safetensors", "optimizer.safetensors", "config.json"}) {
      const std::string name = concat("/checkpoints/step-000000", step, "/", file);
      EXPECT_EQ(sha256_file(a.run() + name), sha256_file(b.run() + name)) << name;
    }
  }
  EXPECT_EQ(RunFolder(b.run()).checkpoints().size(), 2u);
}

TEST(Async, ErrorsAreTold) {
  const TinyRun run;
  TrainRequest request;
  request.quiet = true;
  TrainHooks hooks;
  hooks.on_step = [&](Model&, std::int64_t step) {
    if (step == 7) {  // the next checkpoint's place is taken by a file, once that of step 5 is written
      for (int wait = 0; wait < 3000 && !fs::exists(run.run() + "/checkpoints/step-00000005"); ++wait)
        std::this_thread::sleep_for(std::chrono::milliseconds(10));
      std::this_thread::sleep_for(std::chrono::milliseconds(50));  // the folder's sync after the rename
      fs::remove_all(run.run() + "/checkpoints");
      write_file_atomic(run.run() + "/checkpoints", "");
    }
  };
  const std::string text =
      error_text([&] { train(run.settings({"checkpointing.async=true"}), request, hooks); }, ExitCode::system);
  EXPECT_NE(text.find(run.run() + "/checkpoints"), std::string::npos) << text;
}

// A weight that is far off for one step.
TrainHooks disturbed(std::int64_t at, bool mend) {
  TrainHooks hooks;
  hooks.on_step = [=, times = std::make_shared<int>(0)](Model& model, std::int64_t step) {
    at::NoGradGuard no_grad;
    const at::Tensor weight = model.parameters().find("lm_head.weight")->value;
    if (step == at && (*times)++ == 0) weight.mul_(100);
    if (step == at + 1 && mend && *times == 1) weight.div_(100);
  };
  return hooks;
}

const std::vector<std::string> guarded = {"training.spike.window=6", "training.spike.limit=2",
                                          "logging.log_interval=1"};

std::vector<std::string> with(std::vector<std::string> more) {
  more.insert(more.end(), guarded.begin(), guarded.end());
  return more;
}

TEST(Spikes, SkippedStepsLeaveALineAndNoUpdate) {
  const TinyRun run;
  TrainRequest request;
  request.quiet = true;
  const TrainResult result = train(run.settings(with({"training.spike.action=skip"})), request, disturbed(12, true));
  EXPECT_TRUE(result.complete);
  const std::string text = read_file(run.run() + "/metrics.jsonl");
  EXPECT_NE(text.find("{\"progress/step\":13,\"guard/skipped\":1,"), std::string::npos) << text;
  EXPECT_NE(text.find("guard/norm_bound"), std::string::npos);
  const std::string message = error_text(
      [&] {
        const TinyRun other;
        train(other.settings(with({"training.spike.action=skip"})), request, disturbed(12, false));
      },
      ExitCode::non_finite);
  EXPECT_NE(message.find("training.spike.limit is 2"), std::string::npos) << message;
}

TEST(Spikes, RewindGoesOnFromTheCheckpointWithTheNextWindows) {
  const TinyRun run;
  TrainRequest request;
  request.quiet = true;
  request.window_log = run.folder / "windows";
  const TrainResult result =
      train(run.settings(with({"training.spike.action=rewind"})), request, disturbed(12, false));
  EXPECT_TRUE(result.complete);
  EXPECT_EQ(result.step, 20);
  const TrainingState state = read_training_state(result.checkpoint);
  EXPECT_EQ(state.windows, (20 + 3) * 8) << "three steps' windows were left out";  // 11 and 12, and the spike's
  const std::string sessions = read_file(run.run() + "/sessions.json");
  EXPECT_NE(sessions.find("\"spike_step\": 13"), std::string::npos) << sessions;
  EXPECT_NE(sessions.find("\"windows_left_out\": 24"), std::string::npos) << sessions;
  // A run that is stopped and resumed sees the same.
  std::string lines = read_file(run.run() + "/metrics.jsonl");
  EXPECT_EQ(std::count(lines.begin(), lines.end(), '\n'), 20);
}

}  // namespace
}  // namespace satformer
