// Results as lm-eval 0.4.13 writes them: results_<time>.json, samples_<task>_<time>.jsonl, and a table.
#pragma once

#include <string>
#include <vector>

#include "eval/harness.h"
#include "eval/tasks/list.h"

namespace satformer {

struct EvaluationInfo {
  std::string model_name;  // the path that was asked for
  Json config;             // results' "config"
  double start_time = 0;   // seconds since 1970
  double seconds = 0;
  std::int64_t max_length = 0;
  std::int64_t eot_token = 0;
};

// The whole of results_*.json.
Json results_json(const std::vector<TaskResult>& results, const std::vector<TaskGroup>& groups,
                  const EvaluationInfo& info);
// One line of samples_*.jsonl.
Json sample_json(const TaskResult& result, const Sample& sample);

// Value of a metric in the results: "acc,none".
std::string metric_key(const Task& task, const std::string& metric, bool stderr_value);

// Where lm-eval would put it: `output`/<model name>/, or beside `output` if that ends in ".json".
std::string results_folder(const std::string& output, const std::string& model_name);

// Writes the results, and with `samples` one samples file a task; returns the path of the results. The files' names
// have the time in them. Logs of unfinished work are removed after that.
std::string write_results(const std::string& output, const std::vector<TaskResult>& results, const Json& json,
                          const EvaluationInfo& info, bool samples);

// Markdown: task, version, shots, metric, value, standard error.
std::string results_table(const Json& results);

}  // namespace satformer
