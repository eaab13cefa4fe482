// The runs of a comparison, resolved and checked before any of them starts.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "compare/spec.h"

namespace satformer {

// What makes runs comparable: they differ in the arm and the seed alone.
struct CompareGroup {
  std::string data, size;
  auto operator<=>(const CompareGroup&) const = default;
};
std::string group_title(const CompareGroup& group);  // "mqar", "mqar, 3M"; empty where neither has a name

struct PlannedRun {
  CompareGroup group;
  std::string arm;
  std::int64_t seed = 0;
  std::string folder;  // of this run; the training run itself is in train/
  Json config;         // for `train --config`
  std::int64_t steps = 0;
  std::string name() const;  // for messages
  std::string train_folder() const { return folder + "/train"; }
};

// Of one arm in one group; the same for every seed.
struct ArmCost {
  std::string architecture;
  Json model;  // model.config_overrides
  std::int64_t parameters = 0;
  double flops_per_token = 0;  // forward and backward (train/estimate.h)
  double memory_bytes = 0;     // estimated peak of training
  std::int64_t steps = 0, tokens_per_step = 0;
};

struct Plan {
  CompareSpec spec;
  std::string output;
  std::vector<PlannedRun> runs;  // seeds outermost, so that every arm has one before any has two
  std::map<std::pair<CompareGroup, std::string>, ArmCost> costs;
  std::vector<CompareGroup> groups;
  std::int64_t parallel = 1, threads = 1;  // as used
  std::vector<std::string> devices;        // one for each run at once, in turn
  std::vector<std::string> remarks;

  const ArmCost& cost(const CompareGroup& group, const std::string& arm) const { return costs.at({group, arm}); }
  std::string data_folder(const std::string& data) const { return output + "/data/" + data; }
  double flops() const;  // of all runs
};

struct PlanOptions {
  std::string output = {};                  // the comparison's folder
  std::vector<std::string> overrides = {};  // "section.key=value", over everything in the spec
  std::vector<std::string> devices = {};    // empty: the CPU
  bool must_fit = true;                     // false: what does not fit in memory is told in Plan::remarks
};

// Error(config) naming the run whose configuration is impossible; Error(memory) where the runs at once do not fit.
Plan make_plan(const CompareSpec& spec, const PlanOptions& options);

// Bytes that processes may still take; 0 if it is not known.
double available_memory();

}  // namespace satformer
