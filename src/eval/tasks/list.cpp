#include "eval/tasks/list.h"

#include <algorithm>

#include "base/error.h"
#include "data/synthetic/task.h"
#include "eval/tasks/custom.h"
#include "eval/tasks/tasks.h"

namespace satformer {

const std::vector<Task>& builtin_tasks() {
  static const std::vector<Task> list = [] {
    std::vector<Task> all;
    const auto add = [&](std::vector<Task> family) {
      for (Task& task : family) all.push_back(std::move(task));
    };
    add(tasks::multiple_choice());
    add({tasks::lambada_openai()});
    add(tasks::completion());
    add(tasks::closed_book());
    add({tasks::drop()});
    add(tasks::with_passage());
    add({tasks::msmarco()});
    add(tasks::own());
    return all;
  }();
  return list;
}

std::vector<TaskGroup> task_groups() {
  return {
      {"ai2_arc", {"arc_easy", "arc_challenge"}},
      {"commonsense",
       {"hellaswag", "piqa", "arc_easy", "arc_challenge", "winogrande", "openbookqa", "boolq", "sciq"}},
      {"retrieval", {"swde", "fda", "squad_completion", "triviaqa", "nq_open", "drop"}},
      {"retrieval_jrt", {"swde@jrt", "fda@jrt", "squad_completion@jrt", "triviaqa@jrt", "nq@jrt-2048", "drop@jrt"}},
  };
}

namespace {

class Selector {
 public:
  void add(const std::string& name) {
    if (name.ends_with(".json")) {
      Task task = load_custom_task(name);
      for (const Task& other : builtin_tasks()) {
        if (other.name == task.name) fail(ExitCode::usage, name, ": the name '", task.name, "' is a built-in task's");
      }
      if (is_synthetic_task(task.name))
        fail(ExitCode::usage, name, ": the name '", task.name, "' is a generated task's");
      for (const Task& other : selection_.tasks) {
        if (other.name == task.name) fail(ExitCode::usage, name, ": the name '", task.name, "' is another task's");
      }
      return add_task(std::move(task));
    }
    for (const TaskGroup& group : task_groups()) {
      if (group.name != name) continue;
      for (const std::string& task : group.tasks) add(task);
      selection_.groups.push_back(group);
      return;
    }
    for (const Task& task : builtin_tasks()) {
      if (name == task.name || name == current_alias(task)) return add_task(task);
    }
    std::vector<std::string> known;
    for (const Task& task : builtin_tasks()) known.push_back(task.name);
    for (const TaskGroup& group : task_groups()) known.push_back(group.name);
    for (const std::string& task : synthetic_task_names()) known.push_back(task);
    const std::string near = did_you_mean(name, known);
    fail(ExitCode::usage, "unknown task '", name, "'.",
         near.empty() ? " 'satformer eval --list-tasks' lists them; a task of your own is a .json file." : near);
  }
  TaskSelection take() { return std::move(selection_); }

 private:
  static std::string current_alias(const Task& task) {
    const bool whole = task.version.is_number() && task.name.find('@') == std::string::npos;
    return whole ? concat(task.name, "@v", static_cast<std::int64_t>(task.version.get<double>())) : task.name;
  }
  void add_task(Task task) {
    for (const Task& other : selection_.tasks) {
      if (other.name == task.name) return;
    }
    selection_.tasks.push_back(std::move(task));
  }
  TaskSelection selection_;
};

}  // namespace

std::vector<std::string> split_names(std::span<const std::string> lists, std::string_view option) {
  std::vector<std::string> names;
  for (const std::string& list : lists) {
    for (std::size_t at = 0; at <= list.size();) {
      const std::size_t end = std::min(list.find(',', at), list.size());
      if (end == at && !list.empty()) fail(ExitCode::usage, option, " '", list, "': a name between commas is empty");
      if (end > at) names.push_back(list.substr(at, end - at));
      at = end + 1;
    }
  }
  return names;
}

TaskSelection select_tasks(std::span<const std::string> names) {
  Selector selector;
  const std::vector<std::string> single = split_names(names);
  for (const std::string& name : single) selector.add(name);
  if (single.empty()) fail(ExitCode::usage, "no task is named; 'satformer eval --list-tasks' lists them");
  return selector.take();
}

}  // namespace satformer
