#include "cli/option_table.h"

#include "base/error.h"

namespace satformer::cli {

std::vector<OptionTable> option_tables(const Command& command) {
  std::vector<std::string> modes = command.modes;
  modes.insert(modes.begin(), "");
  std::vector<OptionTable> tables;
  for (const std::string& mode : modes) {
    std::vector<std::string> arguments = {table_request};
    if (!mode.empty()) arguments.push_back(mode);
    try {
      command.run(arguments);
      fail(ExitCode::internal, "command ", command.name, " does not tell its options");
    } catch (const OptionTable& table) {
      tables.push_back(table);
      tables.back().command = mode.empty() ? command.name : command.name + " " + mode;
    }
  }
  return tables;
}

}  // namespace satformer::cli
