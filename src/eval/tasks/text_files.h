// The loss on a user's text files, as a task.
#pragma once

#include <string>
#include <vector>

#include "eval/task.h"

namespace satformer {

// A plain file is one document; JSON lines are one each, their text in `column`. Files are found as by `prepare`:
// folders and globs too. `each`: one task a file, named by it; else one of all, named "text".
std::vector<Task> text_tasks(const std::vector<std::string>& patterns, const std::string& column, bool each);

}  // namespace satformer
