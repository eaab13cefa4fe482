#include "train/step_clock.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <sstream>

#include "io/file.h"
#include "train/session.h"
#include "train/test_run.h"

namespace satformer {
namespace {

TEST(StepClock, LinesOfMetricsSplitTheStep) {
  const testing_support::TinyRun run;
  TrainRequest request;
  request.quiet = true;
  train(run.settings(), request, {});
  std::istringstream in(read_file(run.run() + "/metrics.jsonl"));
  int split = 0;
  for (std::string text; std::getline(in, text);) {
    const Json line = Json::parse(text);
    if (!line.contains("train/loss")) continue;
    ++split;
    double sum = 0;
    for (const char* part : {"data", "forward", "backward", "optimizer"}) {
      const double seconds = line.at(std::string("perf/step_seconds/") + part).get<double>();
      EXPECT_GT(seconds, 0) << part;
      sum += seconds;
    }
    const double step = 8 * 16 / line.at("perf/tokens_per_sec").get<double>();
    EXPECT_LE(sum, step * (1 + 1e-9));
    EXPECT_FALSE(line.contains("perf/step_seconds/communication"));  // there is one process
    EXPECT_GT(line.at("perf/peak_memory_bytes").get<double>(), 1 << 20);
  }
  EXPECT_EQ(split, 7);
}

TEST(StepClock, MeansStartAnew) {
  StepClock clock;
  EXPECT_EQ(clock.mean(StepPart::data), 0);
  clock.begin();
  clock.end(StepPart::data);
  clock.end_step();
  EXPECT_GE(clock.mean(StepPart::data), 0);
  EXPECT_EQ(clock.mean(StepPart::forward), 0);
  clock.clear();
  EXPECT_EQ(clock.steps(), 0);
}

}  // namespace
}  // namespace satformer
