// Carries out a plan: prepares data, trains, evaluates, measures. What is done is left alone, so a comparison that
// was stopped goes on where it was.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "compare/plan.h"
#include "compare/results.h"

namespace satformer {

struct RunnerOptions {
  bool keep_going = true;                                 // after a run has failed
  std::function<bool()> stop;                             // asked often; true: end the runs cleanly and return
  std::function<void(const std::string& text)> progress;  // one line, replaced by the next
  std::function<void(const std::string& text)> note;      // a line to keep
};

struct RunnerResult {
  bool stopped = false;
  std::int64_t done = 0, failed = 0;  // of the plan's runs
  std::vector<std::string> failures;  // one line each
};

// Records the plan in its folder. Error(usage) if the folder holds a comparison of that name with runs of another
// configuration, naming the first; Error(system) where another process works on it.
void record_plan(const Plan& plan, bool dry);

// Error(data) if preparing data fails. A run that fails is reported and tried again the next time; one whose figures
// are damaged is reported.
RunnerResult carry_out(const Plan& plan, const RunnerOptions& options);

// Error(config) for conditions that cannot be measured, before anything runs.
void check_measurement(const Plan& plan);
// Speed of every arm of the first group against the arm it is compared with, alternating. Results that are there are
// not measured again.
std::vector<SpeedResult> measure_arms(const Plan& plan, const RunnerOptions& options);
std::vector<SpeedResult> read_speeds(const Plan& plan);

bool training_is_done(const PlannedRun& run);
// Why the figures of a run whose training is done cannot be used; empty: they can.
std::string damage_of(const PlannedRun& run);
std::string recorded_failure(const PlannedRun& run);  // empty: none

}  // namespace satformer
