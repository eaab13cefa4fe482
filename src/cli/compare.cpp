// satformer compare: a grid of training runs, evaluated, measured and reported.
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>

#include "base/count_of.h"
#include "base/error.h"
#include "base/progress.h"
#include "cli/command.h"
#include "cli/options.h"
#include "cli/synthetic_tasks.h"
#include "compare/report.h"
#include "compare/runner.h"
#include "eval/tasks/list.h"
#include "io/file.h"
#include "nn/device.h"
#include "train/stop.h"

namespace satformer::cli {
namespace {

struct CompareArguments {
  std::string spec, output, data_dir, task_data_dir, tokenizer;
  std::vector<std::string> only, seeds, devices;
  std::int64_t parallel = 0, threads = 0;
  bool list = false, show = false, dry_run = false, report_only = false, no_measure = false;
};

void print_presets() {
  std::printf("%-16s %5s  %s\n", "preset", "runs", "");
  for (const Preset& preset : compare_presets()) {
    const CompareSpec spec = read_compare_spec(std::string(preset.name));
    const std::size_t runs = spec.arms.size() * spec.data.size() * spec.sizes.size() * spec.seeds.size();
    std::printf("%-16s %5zu  %s\n", spec.name.c_str(), runs, spec.title.c_str());
  }
}

// Keeps the arms that --only names, and what they are compared with.
void keep_only(CompareSpec& spec, const std::vector<std::string>& names) {
  if (names.empty()) return;
  std::vector<std::string> all;
  for (const CompareArm& arm : spec.arms) all.push_back(arm.name);
  std::set<std::string> kept = {spec.baseline};
  for (const std::string& name : names) {
    if (std::find(all.begin(), all.end(), name) == all.end()) {
      fail(ExitCode::usage, "--only '", name, "' is not an arm of ", spec.name, ".", did_you_mean(name, all));
    }
    kept.insert(name);
    if (const std::string& other = spec.arm(name).against; !other.empty()) kept.insert(other);
  }
  std::erase_if(spec.arms, [&](const CompareArm& arm) { return !kept.contains(arm.name); });
}

std::vector<std::int64_t> seeds_of(const std::vector<std::string>& texts) {
  std::vector<std::int64_t> seeds;
  for (const std::string& text : split_names(texts, "--seeds")) {
    const bool digits =
        !text.empty() && text.size() < 16 && text.find_first_not_of("0123456789") == std::string::npos;
    if (!digits) fail(ExitCode::usage, "--seeds: '", text, "' is not a whole number from 0");
    seeds.push_back(std::stoll(text));
    if (std::count(seeds.begin(), seeds.end(), seeds.back()) > 1) {
      fail(ExitCode::usage, "--seeds: ", text, " stands twice");
    }
  }
  return seeds;
}

CompareSpec spec_of(const CompareArguments& a) {
  CompareSpec spec = read_compare_spec(a.spec);
  keep_only(spec, split_names(a.only, "--only"));
  if (!a.seeds.empty()) spec.seeds = seeds_of(a.seeds);
  if (a.parallel < 0 || a.parallel > 1024) fail(ExitCode::usage, "--parallel must be between 0 and 1024");
  if (a.threads < 0 || a.threads > 1024) fail(ExitCode::usage, "--threads must be between 0 and 1024");
  if (a.parallel > 0) spec.parallel = a.parallel;
  if (a.threads > 0) spec.threads = a.threads;
  if (!a.task_data_dir.empty()) {
    if (spec.evaluation.tasks.empty()) fail(ExitCode::usage, "--task-data-dir: ", spec.name, " evaluates no tasks");
    spec.evaluation.data_dir = a.task_data_dir;
  }
  if (a.no_measure) spec.measurement.phases.clear();
  return spec;
}

// Each of these prints or writes one thing and stops.
void check_modes(const CompareArguments& a) {
  std::string first;
  for (const auto& [given, name] : {std::pair(a.list, "--list"), std::pair(a.show, "--show-spec"),
                                    std::pair(a.dry_run, "--dry-run"), std::pair(a.report_only, "--report")}) {
    if (!given) continue;
    if (!first.empty()) fail(ExitCode::usage, first, " and ", name, " each do one thing and stop: give one of them");
    first = name;
  }
  if (a.list && !a.spec.empty()) fail(ExitCode::usage, "--list shows all presets: '", a.spec, "' has no use");
}

void print_plan(const Plan& plan) {
  std::printf("%s: %zu runs, %lld at once of %lld threads, %s FLOPs\n", plan.spec.name.c_str(), plan.runs.size(),
              static_cast<long long>(plan.parallel), static_cast<long long>(plan.threads),
              human_count(plan.flops()).c_str());
  std::printf("%-28s %-28s %12s %12s %10s %8s %12s\n", "data", "arm", "parameters", "FLOPs/token", "memory", "steps",
              "tokens");
  for (const CompareGroup& group : plan.groups) {
    for (const CompareArm& arm : plan.spec.arms) {
      const ArmCost& c = plan.cost(group, arm.name);
      std::printf("%-28s %-28s %12s %12s %10s %8lld %12s\n", group_title(group).c_str(), arm.name.c_str(),
                  human_count(static_cast<double>(c.parameters)).c_str(), human_count(c.flops_per_token).c_str(),
                  human_bytes(c.memory_bytes).c_str(), static_cast<long long>(c.steps),
                  human_count(static_cast<double>(c.steps) * static_cast<double>(c.tokens_per_step)).c_str());
    }
  }
  for (const std::string& remark : plan.remarks) std::printf("%s\n", remark.c_str());
}

// What can be told of tasks and devices before anything runs.
void check_ahead(Plan& plan, bool dry_run) {
  for (const std::string& device : plan.devices) parse_device(device);
  check_measurement(plan);
  std::vector<std::string> tasks = plan.spec.evaluation.tasks;
  take_synthetic_tasks(tasks);
  if (split_names(tasks).empty()) return;
  bool files = false;
  for (const Task& task : select_tasks(tasks).tasks) files = files || (!task.make_rows && task.files.empty());
  const std::string& folder = plan.spec.evaluation.data_dir;
  std::error_code error;
  if (!files || std::filesystem::is_directory(folder, error)) return;
  const std::string remark = concat(
      plan.spec.name, " evaluates tasks that read files: ",
      folder.empty() ? std::string("--task-data-dir names their folder") : concat("'", folder, "' is no folder"));
  if (!dry_run || !folder.empty()) fail(ExitCode::config, remark);
  plan.remarks.push_back(remark);
}

// How the runs that are there were made, for a report written later.
std::string record_path(const Plan& plan) { return plan.output + "/last_run.json"; }

void record_run(const Plan& plan, const std::string& command) {
  const Json json = {
      {"command", command}, {"parallel", plan.parallel}, {"threads", plan.threads}, {"devices", plan.devices}};
  write_file_atomic(record_path(plan), json.dump(2) + "\n");
}

std::string read_record(Plan& plan, const std::string& otherwise) {
  if (!std::filesystem::exists(record_path(plan))) return otherwise;
  const Json json = Json::parse(read_file(record_path(plan)), nullptr, false);
  if (!json.is_object()) return otherwise;
  plan.parallel = json.value("parallel", plan.parallel);
  plan.threads = json.value("threads", plan.threads);
  plan.devices = json.value("devices", plan.devices);
  return json.value("command", otherwise);
}

std::string command_line(std::span<const std::string> arguments) {
  std::string line = "satformer compare";
  for (const std::string& argument : arguments) {
    const bool plain = !argument.empty() && argument.find_first_of(" \t\n\"'\\$&;|<>()*?[]#~`!") == std::string::npos;
    if (plain) {
      line += " " + argument;
      continue;
    }
    line += " '";
    for (const char c : argument) line += c == '\'' ? std::string("'\\''") : std::string(1, c);
    line += "'";
  }
  return line;
}

}  // namespace

int run_compare(std::span<const std::string> arguments) {
  CompareArguments a;
  Options options(
      "compare",
      "Trains, evaluates and measures a grid of models (architectures x data x sizes x seeds) and reports "
      "what the differences are. Stopped or failed, the same command goes on.");
  options.add("spec", a.spec, "A specification (JSON) or the name of a preset")
      .add("--output,-o", a.output, "Folder of the runs and the report (default: comparisons/NAME)")
      .add_list("--only", a.only, "These arms, A,B, with what they are compared with")
      .add_list("--seeds", a.seeds, "These seeds, 1,2,3, instead of the specification's")
      .add("--data-dir", a.data_dir, "Token shards (data.data_dir of every run)")
      .add("--task-data-dir", a.task_data_dir, "Files of the tasks")
      .add("--parallel", a.parallel, "Runs at once (0: one for each core or device)")
      .add("--threads", a.threads, "CPU threads of a run (0: the cores divided by the runs at once)")
      .add_list("--devices", a.devices, "cuda:0,cuda:1: one run on each at once")
      .flag("--no-measure", a.no_measure, "Without measuring speed and memory")
      .flag("--report", a.report_only, "Write the report of what is there, and stop")
      .flag("--dry-run", a.dry_run, "Print runs, parameters, FLOPs and memory, and stop")
      .flag("--show-spec", a.show, "Print the specification as JSON, and stop")
      .flag("--list", a.list, "List the presets, and stop");
  options.allow_overrides().footer(
      "Configuration fields, as --section.key=value, go over those of the specification in every run.\n");
  if (!options.parse(arguments)) return 0;
  check_modes(a);
  if (a.list) {
    print_presets();
    return 0;
  }
  if (a.spec.empty()) fail(ExitCode::usage, "compare needs a specification or a preset (--list shows those)");
  const CompareSpec spec = spec_of(a);
  if (a.show) {
    std::printf("%s\n", spec.to_json().dump(2).c_str());
    return 0;
  }
  PlanOptions plan_options;
  plan_options.output = a.output.empty() ? "comparisons/" + spec.name : a.output;
  plan_options.overrides = options.overrides();
  if (!a.data_dir.empty()) plan_options.overrides.push_back("data.data_dir=" + Json(a.data_dir).dump());
  plan_options.devices = split_names(a.devices, "--devices");
  plan_options.must_fit = !a.dry_run && !a.report_only;
  Plan plan = make_plan(spec, plan_options);
  if (!a.report_only) check_ahead(plan, a.dry_run);
  if (a.dry_run) {
    record_plan(plan, true);
    print_plan(plan);
    return 0;
  }
  record_plan(plan, a.report_only);
  std::string command = command_line(arguments), measure_error;
  RunnerResult result;
  if (a.report_only) {
    if (!std::filesystem::is_directory(plan.output)) {
      fail(ExitCode::system, "'", plan.output, "' is not there: nothing to report");
    }
    command = read_record(plan, command);
  } else {
    record_run(plan, command);
    const StopSignals signals;
    ProgressLine progress;
    RunnerOptions runner;
    runner.stop = StopSignals::requested;
    runner.progress = [&](const std::string& text) { progress.update(text); };
    runner.note = [&](const std::string& text) { progress.print(text); };
    result = carry_out(plan, runner);
    try {
      if (!result.stopped) measure_arms(plan, runner);
    } catch (const Error& error) {  // the report of what was trained is still to be written
      measure_error = error.what();
    }
    if (StopSignals::requested()) {
      progress.finish(
          concat("stopped: ", result.done, " of ", plan.runs.size(), " runs are done; the same command goes on"));
      return static_cast<int>(StopSignals::exit_code());
    }
  }
  const Comparison comparison = summarise(plan);
  write_report(comparison, command);
  for (const NamedTable& t : comparison_tables(comparison)) {
    if (t.name != "reported") std::printf("%s\n", table_text(t.table).c_str());
  }
  for (const std::string& sentence : comparison_findings(comparison)) std::printf("%s\n", sentence.c_str());
  std::printf("\nreport: %s/report.html\n", plan.output.c_str());
  for (const auto& [folder, run] : comparison.runs) {
    if (a.report_only && !run.failure.empty()) {
      std::fprintf(stderr, "satformer: left out: '%s': %s\n", folder.c_str(), run.failure.c_str());
      ++result.failed;
      result.failures.push_back(run.failure);
    }
  }
  if (!measure_error.empty()) fail(ExitCode::check_failed, "speed was not measured: ", measure_error);
  if (result.failed > 0) {
    fail(ExitCode::check_failed, result.failed, " of ", count_of(plan.runs.size(), "run"),
         " failed; the first: ", result.failures.front());
  }
  return 0;
}

}  // namespace satformer::cli
