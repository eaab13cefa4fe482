#include "compare/plan.h"

#include <sched.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/progress.h"
#include "train/estimate.h"
#include "train/run_config.h"

namespace satformer {
namespace {

namespace fs = std::filesystem;

std::int64_t cores() {
  cpu_set_t set;
  return sched_getaffinity(0, sizeof set, &set) == 0 ? std::max(1, CPU_COUNT(&set)) : 1;
}

// Overrides of the command line go over every run.
void check_overrides(const std::vector<std::string>& overrides) {
  for (const std::string& override_ : overrides) {
    const auto equals = override_.find('=');
    Json nested;
    merge_config(nested, {{override_.substr(0, equals), true}});
    refuse_own_keys(nested, concat("--", override_));
  }
}

RunSettings resolve(const PlannedRun& run, const std::vector<std::string>& overrides) {
  ConfigSources sources;
  visit_leaves(run.config, [&](const std::string& key, const Json& value) {
    if (!value.is_object()) sources.overrides.push_back(concat(key, '=', value.dump()));
  });
  sources.overrides.insert(sources.overrides.end(), overrides.begin(), overrides.end());
  try {
    return RunSettings(sources);
  } catch (const Error& error) {
    fail(error.code(), "run ", run.name(), ": ", error.what());
  }
}

ArmCost cost_of(const RunSettings& settings) {
  const RunConfig& config = settings.config();
  const auto model = make_model(settings.architecture(), config.model.config, at::Device(at::kMeta));
  ArmCost cost;
  cost.architecture = settings.architecture().name;
  cost.model = settings.to_json()["model"]["config_overrides"];
  cost.parameters = count_parameters(*model).total;
  cost.flops_per_token = training_flops(*model, config.data.seq_length).per_token();
  cost.memory_bytes = training_memory(*model, memory_shape(config)).peak();
  cost.steps = config.total_steps();
  cost.tokens_per_step = config.tokens_per_step();
  return cost;
}

void choose_parallelism(Plan& plan, const PlanOptions& options) {
  const auto runs = static_cast<std::int64_t>(plan.runs.size());
  plan.devices = options.devices.empty() ? std::vector<std::string>{"cpu"} : options.devices;
  const bool cpu = plan.devices.size() == 1 && plan.devices[0] == "cpu";
  const std::int64_t threads = plan.spec.threads;
  plan.parallel = plan.spec.parallel > 0 ? plan.spec.parallel
                  : cpu                  ? std::max<std::int64_t>(1, cores() / std::max<std::int64_t>(1, threads))
                                         : static_cast<std::int64_t>(plan.devices.size());
  plan.parallel = std::clamp<std::int64_t>(plan.parallel, 1, runs);
  plan.threads = threads > 0 ? threads : std::max<std::int64_t>(1, cores() / plan.parallel);
}

void check_memory(Plan& plan, bool must_fit) {
  const double free = available_memory();
  if (free <= 0 || plan.devices[0] != "cpu") return;
  for (const PlannedRun& run : plan.runs) {
    const double needed = plan.cost(run.group, run.arm).memory_bytes * static_cast<double>(plan.parallel);
    if (needed <= free) continue;
    const std::string remark = concat(
        "run ", run.name(), " needs about ", human_bytes(plan.cost(run.group, run.arm).memory_bytes),
        plan.parallel > 1 ? concat(", and ", plan.parallel, " such at once more than the ") : ", more than the ",
        human_bytes(free),
        " that are free: a smaller training.batch_size (with gradient_accumulation_steps), "
        "training.gradient_checkpointing or fewer runs at once (--parallel) would fit");
    if (must_fit) fail(ExitCode::memory, remark);
    plan.remarks.push_back(remark);
    return;
  }
}

}  // namespace

double available_memory() {
  std::ifstream file("/proc/meminfo");
  std::string key;
  double kib = 0;
  std::string unit;
  while (file >> key >> kib) {
    std::getline(file, unit);
    if (key == "MemAvailable:") return kib * 1024;
  }
  return 0;
}

std::string group_title(const CompareGroup& group) {
  if (group.size.empty()) return group.data == "data" ? "" : group.data;
  return group.data == "data" ? group.size : concat(group.data, ", ", group.size);
}

std::string PlannedRun::name() const {
  const std::string title = group_title(group);
  return concat("'", arm, "'", title.empty() ? "" : concat(" on ", title), ", seed ", seed);
}

double Plan::flops() const {
  double all = 0;
  for (const PlannedRun& run : runs) {
    const ArmCost& c = cost(run.group, run.arm);
    all += c.flops_per_token * static_cast<double>(c.steps) * static_cast<double>(c.tokens_per_step);
  }
  return all;
}

Plan make_plan(const CompareSpec& spec, const PlanOptions& options) {
  check_overrides(options.overrides);
  Plan plan;
  plan.spec = spec;
  plan.output = options.output;
  for (const CompareData& data : spec.data) {
    for (const CompareAxis& size : spec.sizes) plan.groups.push_back({data.name, size.name});
  }
  for (const std::int64_t seed : spec.seeds) {
    for (const CompareData& data : spec.data) {
      for (const CompareAxis& size : spec.sizes) {
        for (const CompareArm& arm : spec.arms) {
          PlannedRun run{{data.name, size.name}, arm.name, seed, {}, Json::object()};
          run.folder = concat(options.output, "/runs/", data.name, size.name.empty() ? "" : "/" + size.name, '/',
                              arm.name, "/seed-", seed);
          if (!arm.config.empty()) merge_config(run.config, read_json_file(arm.config));
          for (const Json* layer : {&spec.base, &data.set, &size.set, &arm.set}) merge_config(run.config, *layer);
          if (!data.prepare.empty()) merge_config(run.config, {{"data.data_dir", plan.data_folder(data.name)}});
          plan.runs.push_back(std::move(run));
        }
      }
    }
  }
  choose_parallelism(plan, options);
  std::size_t number = 0;
  for (PlannedRun& run : plan.runs) {
    const std::string device = plan.devices[number++ % plan.devices.size()];
    merge_config(run.config, {{"system.seed", run.seed},
                              {"system.threads", plan.threads},
                              {"system.device", device},
                              {"checkpointing.checkpoint_dir", run.train_folder()},
                              {"checkpointing.save_final_model", true}});
    const RunSettings settings = resolve(run, options.overrides);
    const auto key = std::make_pair(run.group, run.arm);
    if (!plan.costs.contains(key)) plan.costs.emplace(key, cost_of(settings));
    run.steps = plan.costs.at(key).steps;
    run.config = settings.to_json();
  }
  check_memory(plan, options.must_fit);
  return plan;
}

}  // namespace satformer
