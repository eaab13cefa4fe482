// Options of a command made from the fields of a configuration struct: "--seq-length" for "seq_length".
#pragma once

#include <deque>
#include <set>
#include <string>
#include <vector>

#include "base/config.h"
#include "cli/options.h"

namespace satformer::cli {

class FieldOptions {
 public:
  // `fields` and this outlive the parsing. Fields of `except` get no option.
  FieldOptions(Options& options, ConfigBinding& fields, const std::set<std::string>& except);
  // After parsing: sets what was given. Error(config) for values out of bounds. The paths that were given.
  std::vector<std::string> apply();

 private:
  struct Given {
    std::string path, value;
  };
  ConfigBinding& fields_;
  std::deque<Given> given_;  // options keep pointers into it
};

}  // namespace satformer::cli
