#include "cli/synthetic_tasks.h"

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "data/synthetic/task.h"
#include "eval/tasks/list.h"

namespace satformer::cli {
namespace {

struct Section {
  SyntheticOptions options;
  void visit(FieldVisitor& visitor) { visitor.section("synthetic", options); }
};

// data.synthetic of the model's run, if it has that task; else null.
Json trained_section(const LoadedModel& loaded, const std::string& task) {
  const std::string path = (std::filesystem::path(loaded.directory) / "run_config.json").string();
  if (!std::filesystem::exists(path)) return nullptr;
  const Json json = read_json_file(path, ExitCode::checkpoint);
  const Json::json_pointer pointer("/data/synthetic");
  if (!json.contains(pointer) || !json[pointer].is_object() || json[pointer].value("task", Json()) != task)
    return nullptr;
  return {{"synthetic", json[pointer]}};
}

}  // namespace

std::vector<std::string> take_synthetic_tasks(std::vector<std::string>& tasks) {
  std::vector<std::string> taken, rest;
  for (const std::string& name : split_names(tasks)) {
    auto& list = is_synthetic_task(name) ? taken : rest;
    if (std::find(list.begin(), list.end(), name) == list.end()) list.push_back(name);
  }
  tasks = rest;
  return taken;
}

std::vector<SyntheticOptions> synthetic_options(const std::vector<std::string>& names, const LoadedModel& loaded,
                                                const std::vector<std::string>& overrides) {
  std::vector<SyntheticOptions> all;
  std::vector<bool> read(overrides.size(), false);
  for (const std::string& name : names) {
    Section section;
    section.options.vocab_size = loaded.model->config().vocab_size;
    section.options.seq_length = trained_seq_length(loaded);
    ConfigBinding binding(section);
    if (const Json trained = trained_section(loaded, name); !trained.is_null()) {
      binding.apply_json(trained, loaded.directory + "/run_config.json: data");
    }
    section.options.task = name;
    for (std::size_t i = 0; i < overrides.size(); ++i) {
      binding.apply_override(overrides[i]);
      const std::string path = overrides[i].substr(0, overrides[i].find('='));
      const std::string key = path.substr(path.rfind('.') + 1);
      if (key == "task") fail(ExitCode::usage, "--", overrides[i], ": --tasks names the tasks");
      read[i] = read[i] || task_reads(synthetic_task(section.options), key);
    }
    all.push_back(section.options);
  }
  for (std::size_t i = 0; i < overrides.size(); ++i) {
    if (!read[i]) fail(ExitCode::usage, "--", overrides[i], " has no effect on the tasks that are named");
  }
  return all;
}

LoadedText load_plain_model(const TextOptions& options) {
  LoadedText result{options.model.load(), nullptr, nullptr};
  result.edits = options.edit.activate(result.loaded);
  if (!options.model.tokenizer.empty() || has_tokenizer(result.loaded.directory)) {
    result.tokenizer = options.model.load_tokenizer_for(result.loaded);
  }
  return result;
}

}  // namespace satformer::cli
