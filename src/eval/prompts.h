// Documents of a task as prompts: reading, asking, few-shot examples.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "eval/harness.h"

namespace satformer {

// A task's documents, ready to be encoded.
struct PreparedTask {
  Task task;
  std::int64_t documents = 0;  // in the files
  std::vector<Sample> samples;
  std::vector<BadDocument> bad;
};

// Errors as evaluate() has them.
PreparedTask prepare_task(const Task& task, const EvalOptions& options);

// Files of a split in the data folder (or those that the task names). Error(data) naming what was looked for.
std::vector<std::string> task_files(const Task& task, const std::string& data_dir, bool examples);

}  // namespace satformer
