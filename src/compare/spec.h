// What a comparison is: a grid of training runs (architectures or variants x data x sizes x seeds), how each is
// evaluated and measured, and what the report calls a target. One JSON file; presets are files of the same form.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"

namespace satformer {

// A named change of the run's configuration, in the layout of `train --config` (docs/configuration.md). Keys may be
// dotted paths: {"training.learning_rate": 0.001}.
struct CompareAxis {
  std::string name;
  Json set;  // nested
};

struct CompareArm : CompareAxis {
  std::string config;   // a file that `set` goes over; empty: none
  std::string against;  // the arm that this one is compared with; empty: the spec's baseline
};

struct CompareData : CompareAxis {
  std::vector<std::string>
      prepare;  // arguments of `prepare`, without --output: made once, in the comparison's folder
};

// A run has reached the target at the first validation with `metric` at or beyond `value`.
struct CompareTarget {
  std::string metric = "val/loss";
  std::optional<double> value;    // none: the baseline's mean at the end of training
  bool higher_is_better = false;  // told by the metric's name: accuracies are, losses are not
};

struct CompareEvaluation {
  std::vector<std::string> tasks;  // empty: none
  std::string data_dir;
  std::vector<std::string> arguments;  // further ones of `eval`
};

struct CompareMeasurement {
  std::vector<std::string> phases;  // train, prefill, decode; empty: nothing is measured
  std::int64_t batch_size = 4, context = 512, rounds = 9;
  double seconds = 2;
  std::string dtype = "float32";
};

// A figure from elsewhere that the report shows beside the measured ones.
struct ReportedClaim {
  std::string claim, reported;
};

struct CompareSpec {
  std::string name, title, description;
  Json base;  // configuration that all runs share, nested
  std::vector<CompareArm> arms;
  std::vector<CompareData> data;   // at least one
  std::vector<CompareAxis> sizes;  // at least one; a spec without sizes has one without name
  std::vector<std::int64_t> seeds;
  std::string baseline;  // an arm
  CompareTarget target;
  std::vector<std::string> curves;  // metrics drawn against tokens, time and FLOPs
  CompareEvaluation evaluation;
  CompareMeasurement measurement;
  std::vector<ReportedClaim> reported;
  std::int64_t threads = 0;      // of one run; 0: all cores divided by the runs at once
  std::int64_t parallel = 0;     // runs at once; 0: one for each thread or device
  double matched_within = 0.01;  // parameters and FLOPs that differ by more from the baseline's are pointed out

  const CompareArm& arm(std::string_view arm_name) const;  // must exist
  Json to_json() const;                                    // as a spec that gives the same runs
};

// `source`: a file, or the name of a preset. Error(config) naming the key, what was expected and the nearest name;
// Error(system) if the file cannot be read.
CompareSpec read_compare_spec(const std::string& source);
CompareSpec parse_compare_spec(const Json& json, const std::string& origin);

// Keys that a comparison sets for every run (seed, threads, device, folder of checkpoints), with what chooses them.
// Error(config) naming `where`, if `config` (nested) sets one.
void refuse_own_keys(const Json& config, const std::string& where);
// Error(config) naming `where` and the nearest name, for what no run logs. `validation`: only metrics of validation.
void check_metric(const std::string& metric, const std::string& where, bool validation);

// Sets a dotted path in a nested configuration; objects given for a section are merged.
void merge_config(Json& into, const Json& set);

struct Preset {
  std::string_view name, text;
};
const std::vector<Preset>& compare_presets();

}  // namespace satformer
