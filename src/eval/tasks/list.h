// Which tasks there are, and how they are named on the command line.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "eval/task.h"

namespace satformer {

// Tasks whose average is shown as one result.
struct TaskGroup {
  std::string name;
  std::vector<std::string> tasks;
};

const std::vector<Task>& builtin_tasks();
std::vector<TaskGroup> task_groups();

// The parts between commas that are not empty; `option` names them in errors.
std::vector<std::string> split_names(std::span<const std::string> lists, std::string_view option = "--tasks");

struct TaskSelection {
  std::vector<Task> tasks;        // each once, in the order named
  std::vector<TaskGroup> groups;  // those that were named
};
// Names of tasks, of groups, and JSON files of tasks (custom.h), also several in one string with commas. "NAME@vN" of
// the current version is NAME. Error(usage) naming the nearest for a name that is unknown; nothing given is an error.
TaskSelection select_tasks(std::span<const std::string> names);

}  // namespace satformer
