#include "compare/runner.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <deque>
#include <filesystem>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/progress.h"
#include "checkpoint/run_folder.h"
#include "compare/process.h"
#include "io/file.h"

namespace satformer {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

std::string config_path(const PlannedRun& run) { return run.folder + "/config.json"; }
std::string failure_path(const PlannedRun& run) { return run.folder + "/failure.txt"; }
std::string log_path(const PlannedRun& run) { return run.folder + "/log.txt"; }
std::string evaluation_record(const PlannedRun& run) { return run.folder + "/eval/arguments.json"; }

// What a run is, whatever machine continues it.
Json identity(Json config) {
  config["system"].erase("threads");
  config["system"].erase("device");
  config["checkpointing"].erase("checkpoint_dir");
  return config;
}

std::vector<std::string> evaluation_arguments(const Plan& plan, const PlannedRun& run) {
  const CompareEvaluation& e = plan.spec.evaluation;
  std::string tasks;
  for (const std::string& task : e.tasks) tasks += (tasks.empty() ? "" : ",") + task;
  std::vector<std::string> arguments = {
      "eval",          "--model",  run.train_folder() + "/final",     "--tasks",   tasks,
      "--log-samples", "--output", run.folder + "/eval/results.json", "--threads", concat(plan.threads)};
  if (!e.data_dir.empty()) arguments.insert(arguments.end(), {"--data-dir", e.data_dir});
  const std::string device = run.config["system"].value("device", std::string("cpu"));
  if (device != "cpu") arguments.insert(arguments.end(), {"--device", device});
  arguments.insert(arguments.end(), e.arguments.begin(), e.arguments.end());
  return arguments;
}

bool evaluation_is_done(const Plan& plan, const PlannedRun& run) {
  if (plan.spec.evaluation.tasks.empty()) return true;
  if (!fs::exists(evaluation_record(run))) return false;
  return read_json_file(evaluation_record(run)) == Json(evaluation_arguments(plan, run));
}

enum class Stage { train, evaluate, done };

Stage next_stage(const Plan& plan, const PlannedRun& run) {
  if (!training_is_done(run)) return Stage::train;
  return evaluation_is_done(plan, run) ? Stage::done : Stage::evaluate;
}

struct Active {
  const PlannedRun* run;
  Stage stage;
  std::unique_ptr<Process> process;
};

std::unique_ptr<Process> start(const Plan& plan, const PlannedRun& run, Stage stage) {
  ProcessSpec spec;
  spec.log = log_path(run);
  if (stage == Stage::train) {
    spec.arguments = {"train", "--config", config_path(run), "--resume", "auto"};
  } else {
    make_directories(run.folder + "/eval");
    spec.arguments = evaluation_arguments(plan, run);
  }
  return std::make_unique<Process>(spec);
}

// The step that a training run has logged.
std::int64_t logged_step(const PlannedRun& run) {
  const std::string line = last_line(RunFolder(run.train_folder()).metrics_path());
  const Json json = Json::parse(line, nullptr, false);
  if (!json.is_object()) return 0;
  const auto it = json.find("progress/step");
  return it != json.end() && it->is_number() ? it->get<std::int64_t>() : 0;
}

std::string why(const PlannedRun& run, Stage stage, int code) {
  std::string line = last_line(log_path(run));
  const std::string mark = "satformer: error: ";
  if (const auto at = line.find(mark); at != std::string::npos) line.erase(0, at + mark.size());
  return concat(stage == Stage::train ? "training" : "evaluation", " ended with exit code ", code, ": ", line);
}

class Runner {
 public:
  Runner(const Plan& plan, const RunnerOptions& options) : plan_(plan), options_(options) {
    for (const PlannedRun& run : plan.runs) {
      all_ += work(run);
      finished_[&run] = work(run) * fraction(run);
      before_ += finished_[&run];
      const std::string damage = training_is_done(run) ? damage_of(run) : std::string();
      if (!damage.empty()) {
        fail_run(run, damage);
      } else if (next_stage(plan, run) == Stage::done) {
        ++result_.done;
      } else {
        waiting_.push_back(&run);
      }
    }
  }

  RunnerResult run() {
    while (!waiting_.empty() || !active_.empty()) {
      const bool stopping = options_.stop && options_.stop();
      if (stopping && !result_.stopped) {
        result_.stopped = true;
        waiting_.clear();
        for (Active& a : active_) a.process->stop();
      }
      while (!waiting_.empty() && static_cast<std::int64_t>(active_.size()) < plan_.parallel) {
        const PlannedRun* next = waiting_.front();
        waiting_.pop_front();
        begin(*next, next_stage(plan_, *next));
      }
      std::erase_if(active_, [&](Active& a) { return !a.process->running() && end(a); });
      show();
      ::usleep(active_.empty() ? 0 : 50000);
    }
    return result_;
  }

 private:
  void fail_run(const PlannedRun& run, const std::string& reason) {
    result_.failures.push_back(concat(run.name(), ": ", reason));
    ++result_.failed;
    if (options_.note) options_.note(result_.failures.back());
  }
  double work(const PlannedRun& run) const {
    const ArmCost& c = plan_.cost(run.group, run.arm);
    return c.flops_per_token * static_cast<double>(c.steps) * static_cast<double>(c.tokens_per_step);
  }
  double fraction(const PlannedRun& run) const {
    if (training_is_done(run)) return 1;
    return run.steps > 0 ? static_cast<double>(logged_step(run)) / static_cast<double>(run.steps) : 0;
  }

  void begin(const PlannedRun& run, Stage stage) {
    std::error_code ignored;
    fs::remove(failure_path(run), ignored);
    active_.push_back({&run, stage, start(plan_, run, stage)});
  }

  // A stage has ended; false: the next one of the run is at work in its place.
  bool end(Active& a) {
    const int code = a.process->exit_code();
    const PlannedRun& run = *a.run;
    finished_[&run] = work(run) * fraction(run);
    if (result_.stopped) {
      if (code == 0 && next_stage(plan_, run) == Stage::done) ++result_.done;
      return true;
    }
    const bool fine = code == 0 && (a.stage != Stage::train || training_is_done(run));
    if (!fine) {
      const std::string reason = why(run, a.stage, code);
      write_file_atomic(failure_path(run), reason + "\n");
      fail_run(run, reason);
      if (!options_.keep_going) {
        result_.stopped = true;
        waiting_.clear();
      }
      return true;
    }
    if (a.stage == Stage::evaluate) {
      write_file_atomic(evaluation_record(run), Json(evaluation_arguments(plan_, run)).dump() + "\n");
    }
    const Stage next = next_stage(plan_, run);
    if (next == Stage::done) {
      ++result_.done;
      return true;
    }
    a.stage = next;
    a.process = start(plan_, run, next);
    return false;
  }

  void show() {
    const auto now = Clock::now();
    if (!options_.progress || now < next_show_) return;
    next_show_ = now + std::chrono::milliseconds(500);
    std::string at;
    for (const Active& a : active_) {
      finished_[a.run] = work(*a.run) * fraction(*a.run);
      const std::string stage = a.stage == Stage::train ? concat(std::lround(100 * fraction(*a.run)), "%") : "tasks";
      at += concat(at.empty() ? "" : ", ", a.run->name(), " ", stage);
    }
    double finished = 0;
    for (const auto& [run, flops] : finished_) finished += flops;
    const double spent = std::chrono::duration<double>(now - began_).count();
    const double gained = finished - before_;
    const std::string left =
        gained > 0 ? concat("  left ", human_duration(spent * (all_ - finished) / gained)) : std::string();
    options_.progress(concat(result_.done, "/", plan_.runs.size(), " runs", left, "  ", at));
  }

  const Plan& plan_;
  const RunnerOptions& options_;
  RunnerResult result_;
  std::deque<const PlannedRun*> waiting_;
  std::vector<Active> active_;
  std::map<const PlannedRun*, double> finished_;  // FLOPs
  double all_ = 0, before_ = 0;
  Clock::time_point began_ = Clock::now(), next_show_ = began_;
};

void prepare_data(const Plan& plan, const RunnerOptions& options, RunnerResult& result) {
  for (const CompareData& data : plan.spec.data) {
    if (data.prepare.empty() || result.stopped) continue;
    const std::string folder = plan.data_folder(data.name), record = folder + "/arguments.json";
    if (fs::exists(record)) {
      if (read_json_file(record) == Json(data.prepare)) continue;
      fail(ExitCode::usage, "'", folder, "' was prepared with other arguments than the specification's data '",
           data.name, "'; remove it or give another --output");
    }
    make_directories(folder);
    if (options.progress) options.progress(concat("preparing ", data.name));
    ProcessSpec spec{{"prepare"}, plan.output + "/prepare.log"};
    spec.arguments.insert(spec.arguments.end(), data.prepare.begin(), data.prepare.end());
    spec.arguments.insert(spec.arguments.end(), {"--output", folder});
    Process process(spec);
    while (process.running()) {
      if (options.stop && options.stop()) {
        result.stopped = true;
        return;
      }
      ::usleep(20000);
    }
    if (process.exit_code() != 0) {
      fail(ExitCode::data, "preparing data '", data.name, "' ended with exit code ", process.exit_code(), ": ",
           last_line(spec.log));
    }
    write_file_atomic(record, Json(data.prepare).dump() + "\n");
  }
}

}  // namespace

bool training_is_done(const PlannedRun& run) {
  const RunFolder folder(run.train_folder());
  const std::string path = folder.final_path() + "/" + RunFolder::final_record;
  if (!fs::exists(path)) return false;
  // A run that is being extended has a final model older than its newest checkpoint.
  const auto checkpoints = folder.checkpoints();
  return checkpoints.empty() || folder.final_step() >= checkpoints.back().step;
}

std::string damage_of(const PlannedRun& run) {
  const RunFolder folder(run.train_folder());
  const std::string way_out = concat("; remove '", run.folder, "' to train it again");
  if (!fs::exists(folder.metrics_path())) return concat("its metrics.jsonl is missing", way_out);
  const std::int64_t logged = logged_step(run), final_step = folder.final_step();
  if (logged >= final_step) return {};
  return concat("its metrics.jsonl is damaged: the last whole line is of step ", logged, ", training ended at ",
                final_step, way_out);
}

std::string recorded_failure(const PlannedRun& run) {
  if (!fs::exists(failure_path(run))) return {};
  std::string text = read_file(failure_path(run));
  while (!text.empty() && text.back() == '\n') text.pop_back();
  return text;
}

void record_plan(const Plan& plan, bool dry) {
  for (const PlannedRun& run : plan.runs) {
    if (!fs::exists(config_path(run))) continue;
    Json there;
    try {
      there = identity(read_json_file(config_path(run)));
    } catch (const Error& error) {
      fail(ExitCode::data, error.what(), "; remove '", run.folder, "' to train that run again");
    }
    const Json wanted = identity(run.config);
    if (there == wanted) continue;
    std::string where;
    std::string values;
    for (const Json& step : Json::diff(there, wanted)) {
      const Json::json_pointer at(step.at("path").get<std::string>());
      where = at.to_string().substr(1);
      std::replace(where.begin(), where.end(), '/', '.');
      if (there.contains(at) && wanted.contains(at)) {
        values = concat(" (", there.at(at).dump(), ", not ", wanted.at(at).dump(), ")");
      }
    }
    fail(ExitCode::config, "'", run.folder, "' holds this run with another ", where, values,
         "; remove that folder or give another --output");
  }
  if (dry) return;
  make_directories(plan.output);
  write_file_atomic(plan.output + "/spec.json", plan.spec.to_json().dump(2) + "\n");
  for (const PlannedRun& run : plan.runs) {
    make_directories(run.folder);
    write_file_atomic(config_path(run), run.config.dump(2) + "\n");
  }
}

RunnerResult carry_out(const Plan& plan, const RunnerOptions& options) {
  const RunLock lock(RunFolder(plan.output), "another compare is at work in");
  RunnerResult prepared;
  prepare_data(plan, options, prepared);
  if (prepared.stopped) return prepared;
  return Runner(plan, options).run();
}

}  // namespace satformer
