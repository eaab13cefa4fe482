// The options of the commands as data, for completions and manual pages.
#pragma once

#include <string>
#include <vector>

#include "cli/command.h"

namespace satformer::cli {

struct OptionRow {
  std::vector<std::string> names;  // "--batch-size", "-b"; a positional's own name, "spec"
  std::string value;               // "INT", "TEXT"; empty for a flag
  std::string standard;            // default; empty if there is none or it is empty
  std::string help;                // one or more sentences
  bool positional = false, required = false;
};

struct OptionTable {
  std::string command;  // "train", "eval --tasks"
  std::string summary, footer;
  std::vector<OptionRow> rows;
};

// In place of arguments: Options::parse() throws its OptionTable then. No shell can hand it over, for its zero byte.
inline const std::string table_request{"\0table", 6};

// Of a command, and of each of its modes after it.
std::vector<OptionTable> option_tables(const Command& command);

}  // namespace satformer::cli
