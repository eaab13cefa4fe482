#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <exception>
#include <string>
#include <string_view>
#include <vector>

#include "base/failure.h"
#include "base/unicode.h"
#include "cli/command.h"
#include "cli/process_settings.h"
#include "io/mapping_faults.h"

namespace {

using satformer::ExitCode;
using satformer::cli::Command;

void print_help(std::FILE* out) {
  std::fprintf(out,
               "satformer: train, evaluate and take apart decoders that reach back to early representations\n\n"
               "Usage: satformer COMMAND [OPTIONS]\n\nCommands:\n");
  for (const Command& command : satformer::cli::commands()) {
    std::fprintf(out, "  %-11s %s\n", command.name.c_str(), command.summary.c_str());
  }
  std::fprintf(
      out,
      "\n'satformer COMMAND --help' lists the options of a command, 'satformer --version' tells the version. "
      "Exit codes: docs/exit-codes.md.\n");
}

bool only_tells(const std::vector<std::string>& arguments) {
  return std::any_of(arguments.begin(), arguments.end(), [](const std::string& argument) {
    return argument == "--help" || argument == "-h" || argument == "--dry-run" || argument == "--show-config";
  });
}

int run(const std::vector<std::string>& arguments, char** argv) {
  if (arguments.empty()) {
    print_help(stderr);
    return static_cast<int>(ExitCode::usage);
  }
  const std::string& name = arguments[0];
  if (name == "--help" || name == "-h" || name == "help") {
    print_help(stdout);
    return 0;
  }
  if (name == "--version") {
    std::printf("satformer %s\n", SATFORMER_VERSION);
    return 0;
  }
  std::vector<std::string> names;
  for (const Command& command : satformer::cli::commands()) {
    if (command.name == name) {
      if (command.computes && !only_tells(arguments)) {
        satformer::cli::start_with_settings(argv, name == "train" || name == "bench");
      }
      return command.run({arguments.data() + 1, arguments.size() - 1});
    }
    names.push_back(command.name);
  }
  satformer::fail(ExitCode::usage, "unknown command '", name, "'.", satformer::did_you_mean(name, names),
                  " 'satformer --help' lists them.");
}

// Names out of files and arguments may hold line ends, escape sequences or bytes of no text, and be long: an error
// stays one line that can be read.
int report(ExitCode code, const char* message) {
  constexpr std::size_t longest = 4000;
  std::string line = satformer::one_line(satformer::replace_invalid_utf8(message));
  if (line.size() > longest) line = satformer::replace_invalid_utf8(line.substr(0, longest)) + " ...";
  std::fflush(stdout);
  std::fprintf(stderr, "satformer: error: %s\n", line.c_str());
  return static_cast<int>(code);
}

// The reader of standard output has gone, as `head` does.
bool reader_gone() {
  pollfd state{STDOUT_FILENO, 0, 0};
  return ::poll(&state, 1, 0) > 0 && (state.revents & POLLERR) != 0;
}

}  // namespace

int main(int argc, char** argv) {
  // A file-size limit or a closed pipe then shows as a failed write, which is reported.
  std::signal(SIGXFSZ, SIG_IGN);
  std::signal(SIGPIPE, SIG_IGN);
  satformer::report_mapping_faults();
  try {
    const int code = run(std::vector<std::string>(argv + 1, argv + argc), argv);
    // ferror: an earlier part may have failed, of which the last flush knows nothing.
    if (std::fflush(stdout) != 0 || std::ferror(stdout) != 0) {
      if (reader_gone()) return static_cast<int>(ExitCode::system);
      return report(ExitCode::system, "cannot write to standard output");
    }
    return code;
  } catch (const std::exception& error) {
    const satformer::Failure failure = satformer::failure_of(error);
    return report(failure.code, failure.message.c_str());
  }
}
