#include "compare/results.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <limits>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "checkpoint/run_folder.h"
#include "compare/runner.h"
#include "io/file.h"

namespace satformer {
namespace {

namespace fs = std::filesystem;

double number(const Json& json, const char* key) {
  const auto it = json.find(key);
  return it != json.end() && it->is_number() ? it->get<double>() : std::numeric_limits<double>::quiet_NaN();
}

// The newest results file of a folder; "" if there is none.
std::string newest_results(const std::string& folder) {
  std::string newest;
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, error)) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with("results_") && name.ends_with(".json") && entry.path().string() > newest) {
      newest = entry.path().string();
    }
  }
  return newest;
}

void read_tasks(const std::string& path, std::map<std::string, TaskScore>& tasks) {
  const Json json = read_json_file(path, ExitCode::data);
  const fs::path file(path);
  const std::string stamp = file.stem().string().substr(std::string("results_").size());
  for (const auto& [task, values] : json.at("results").items()) {
    bool scored = false;
    for (const auto& [key, value] : values.items()) {
      const auto comma = key.find(',');
      if (comma == std::string::npos || !value.is_number()) continue;
      TaskScore score;
      score.metric = key.substr(0, comma);
      score.value = value.get<double>();
      score.error = number(values, concat(score.metric, "_stderr", key.substr(comma)).c_str());
      const Json better = json.value("higher_is_better", Json::object()).value(task, Json::object());
      score.higher_is_better = better.value(score.metric, true);
      const fs::path samples = file.parent_path() / concat("samples_", task, '_', stamp, ".jsonl");
      if (fs::exists(samples)) score.samples = samples.string();
      tasks[task] = score;
      scored = true;
      break;
    }
    if (!scored)
      fail(ExitCode::data, "'", path, "' has no number for task '", task, "'; remove that file to evaluate again");
  }
}

}  // namespace

namespace {

void read_figures(const Plan& plan, const PlannedRun& run, RunResult& result) {
  const RunFolder folder(run.train_folder());
  if (fs::exists(folder.metrics_path())) {
    result.curves = read_curves(folder.metrics_path(), plan.cost(run.group, run.arm).tokens_per_step).all();
    for (const auto& [key, curve] : result.curves) result.last[key] = curve.values.back();
  }
  if (const std::string path = newest_results(run.folder + "/eval"); !path.empty()) read_tasks(path, result.tasks);
}

}  // namespace

RunResult read_run(const Plan& plan, const PlannedRun& run) {
  RunResult result;
  result.trained = training_is_done(run);
  result.failure = recorded_failure(run);
  if (const std::string damage = result.trained ? damage_of(run) : std::string(); !damage.empty()) {
    result.trained = false;
    result.failure = damage;
  }
  try {
    read_figures(plan, run, result);
  } catch (const Error& error) {
    result = {};
    result.failure = error.what();
  } catch (const Json::exception&) {
    result = {};
    result.failure = concat("the results in '", run.folder, "/eval' are of another form; remove that folder");
  }
  return result;
}

std::optional<std::size_t> first_at(const Curve& curve, double value, bool higher_is_better) {
  for (std::size_t i = 0; i < curve.values.size(); ++i) {
    if (higher_is_better ? curve.values[i] >= value : curve.values[i] <= value) return i;
  }
  return std::nullopt;
}

Json speed_json(const SpeedResult& r) {
  return {{"arm", r.arm},
          {"against", r.against},
          {"phase", r.phase},
          {"tokens_per_second", r.tokens_per_second},
          {"against_tokens_per_second", r.against_tokens_per_second},
          {"ratio", r.ratio},
          {"ratio_low", r.low},
          {"ratio_high", r.high},
          {"peak_bytes", r.peak_bytes},
          {"against_peak_bytes", r.against_peak_bytes},
          {"clean", r.clean}};
}

SpeedResult speed_from_json(const Json& json) {
  SpeedResult r;
  r.arm = json.at("arm").get<std::string>();
  r.against = json.at("against").get<std::string>();
  r.phase = json.at("phase").get<std::string>();
  r.tokens_per_second = number(json, "tokens_per_second");
  r.against_tokens_per_second = number(json, "against_tokens_per_second");
  r.ratio = number(json, "ratio");
  r.low = number(json, "ratio_low");
  r.high = number(json, "ratio_high");
  r.peak_bytes = number(json, "peak_bytes");
  r.against_peak_bytes = number(json, "against_peak_bytes");
  r.clean = json.value("clean", true);
  return r;
}

}  // namespace satformer
