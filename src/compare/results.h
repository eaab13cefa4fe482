// What the runs of a comparison gave, read back from their folders.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "compare/plan.h"
#include "track/curves.h"

namespace satformer {

struct TaskScore {
  double value = 0, error = 0;  // standard error; NaN where there is none
  std::string metric;
  bool higher_is_better = true;
  std::string samples;  // file of single documents; "" if none
};

struct RunResult {
  bool trained = false;
  std::string failure;                     // why it is not; empty: not tried yet, or trained
  std::map<std::string, Curve> curves;     // by key of metrics.jsonl
  std::map<std::string, double> last;      // last value of each metric: of the full validation set where trained
  std::map<std::string, TaskScore> tasks;  // first metric of each task
};

RunResult read_run(const Plan& plan, const PlannedRun& run);

// Where `curve` first reaches `value`: its index, or nothing.
std::optional<std::size_t> first_at(const Curve& curve, double value, bool higher_is_better);

// Speed and memory of an arm beside the arm that it is compared with, in the same rounds.
struct SpeedResult {
  std::string arm, against, phase;
  double tokens_per_second = 0, against_tokens_per_second = 0;
  double ratio = 1, low = 1, high = 1;  // 95 %
  double peak_bytes = 0, against_peak_bytes = 0;
  bool clean = true;  // false: others used the machine
};
Json speed_json(const SpeedResult& result);
SpeedResult speed_from_json(const Json& json);

}  // namespace satformer
