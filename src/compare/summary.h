// A comparison's results over seeds, with what they do and do not show.
#pragma once

#include <map>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "compare/results.h"

namespace satformer {

struct SeedEstimate {
  std::size_t n = 0;
  double mean = 0;
  double low = 0, high = 0;  // 95 %; NaN with fewer than two values
};
// Mean with Student's t interval.
SeedEstimate mean_of(std::span<const double> values);

// Median with its 95 % bootstrap interval; values may be infinite (never reached).
SeedEstimate median_estimate(std::span<const double> values);

// Distance to the target, over seeds. Infinite where a run ended before it.
struct ToTarget {
  double value = 0;  // the target
  std::size_t runs = 0, reached = 0;
  double longest = 0, longest_seconds = 0;     // steps, seconds of the longest run that ended before it: "> N"
  SeedEstimate steps, tokens, seconds, flops;  // medians
};

struct ArmSummary {
  CompareGroup group;
  std::string arm, against;                   // against: empty for an arm that is compared with itself
  std::size_t planned = 0;                    // runs
  SeedEstimate final;                         // target metric at the end of training, on the full validation set
  SeedEstimate difference;                    // of `final`, this arm less the other, seed by seed
  std::optional<ToTarget> target;             // none: the comparison has no value to reach
  std::map<std::string, SeedEstimate> tasks;  // means over seeds
  std::map<std::string, double> task_errors;  // standard error over documents, averaged over seeds
  std::map<std::string, SeedEstimate> task_differences;  // paired by seed; with one seed, over documents
  // "better", "worse" or "no difference shown": whether the interval of the difference leaves out zero.
  std::string verdict(bool higher_is_better) const;
};

struct Comparison {
  const Plan* plan = nullptr;
  std::map<std::string, RunResult> runs;  // by folder
  std::vector<SpeedResult> speeds;
  std::vector<ArmSummary> arms;  // groups in order, arms in order
  const ArmSummary& arm(const CompareGroup& group, const std::string& name) const;
  // Trained runs of an arm, by seed.
  std::vector<std::pair<std::int64_t, const RunResult*>> trained(const CompareGroup& group,
                                                                 const std::string& arm) const;
};

Comparison summarise(const Plan& plan);

}  // namespace satformer
