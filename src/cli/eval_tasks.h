// `satformer eval` on tasks and texts: the form of the command with --tasks, --text, --compare or --list-tasks.
#pragma once

#include <span>
#include <string>

namespace satformer::cli {

bool asks_for_tasks(std::span<const std::string> arguments);
int run_eval_tasks(std::span<const std::string> arguments);

}  // namespace satformer::cli
