#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "data/synthetic/task.h"

namespace satformer {
namespace {
constexpr int generator_version = 1;  // goes up when the same options give other examples
}

const std::vector<SyntheticTask>& synthetic_tasks() {
  static const std::vector<SyntheticTask> list = {synthetic::mqar(),           synthetic::induction(),
                                                  synthetic::selective_copy(), synthetic::phone_book(),
                                                  synthetic::mixed_recall(),   synthetic::recall_stories()};
  return list;
}

std::vector<std::string> synthetic_task_names() {
  std::vector<std::string> names;
  for (const SyntheticTask& task : synthetic_tasks()) names.push_back(task.name);
  return names;
}

bool is_synthetic_task(std::string_view name) {
  const auto& tasks = synthetic_tasks();
  return std::any_of(tasks.begin(), tasks.end(), [&](const SyntheticTask& task) { return task.name == name; });
}

const SyntheticTask& synthetic_task(const SyntheticOptions& options) {
  for (const SyntheticTask& task : synthetic_tasks()) {
    if (options.task == task.name) return task;
  }
  const std::vector<std::string> names = synthetic_task_names();
  std::string list;
  for (const std::string& name : names) list += (list.empty() ? "" : ", ") + name;
  fail(ExitCode::config, "the synthetic task '", options.task.value_or(""), "' is not one of: ", list, ".",
       did_you_mean(options.task.value_or(""), names));
}

bool task_reads(const SyntheticTask& task, std::string_view option) {
  for (const char* common : {"task", "seq_length", "examples", "val_examples", "example_seed"}) {
    if (option == common) return true;
  }
  return std::find(task.options.begin(), task.options.end(), option) != task.options.end();
}

Json synthetic_settings(const SyntheticOptions& options, const Tokenizer* tokenizer) {
  const SyntheticTask& task = synthetic_task(options);
  SyntheticOptions copy = options;
  const ConfigBinding binding(copy);
  Json settings = {{"generator", generator_version}};
  for (const Field& field : binding.fields()) {
    if (task_reads(task, field.path) && !field.path.ends_with("examples")) settings[field.path] = field_value(field);
  }
  if (task.text && tokenizer) settings["tokenizer_sha256"] = tokenizer->sha256();
  return settings;
}

}  // namespace satformer
