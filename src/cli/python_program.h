// A Python program run beside this one.
#pragma once

#include <string>
#include <vector>

namespace satformer::cli {

struct PythonResult {
  bool found = true;  // false: there is no such interpreter
  int code = -1;      // exit code; 128 + signal if a signal ended it
  std::string output, errors;
};

// Runs `python FILE ARGUMENTS...` to its end with `extra_environment` ("NAME=VALUE") added; both outputs are kept
// in `folder`, which exists, and returned.
PythonResult run_python(const std::string& python, const std::vector<std::string>& arguments,
                        const std::vector<std::string>& extra_environment, const std::string& folder);

// The last line that is not empty.
std::string last_line_of(const std::string& text);

}  // namespace satformer::cli
