// Errors that reach the user: one sentence (what, where, what was expected) and the exit code of the process.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <sstream>
#include <stdexcept>
#include <string>
#include <string_view>

namespace satformer {

// Documented in docs/exit-codes.md; scripts rely on the numbers.
enum class ExitCode : int {
  ok = 0,
  check_failed = 1,   // the program worked and the answer is no: out of tolerance, files that differ
  usage = 2,          // the command line
  config = 3,         // a configuration value or combination
  data = 4,           // input text, token shards, tokenizer files
  checkpoint = 5,     // a model or training state cannot be used
  system = 6,         // the operating system refused: disk full, permission, missing file
  non_finite = 7,     // loss or gradient became NaN or infinite, or spiked too often
  memory = 8,         // out of memory
  internal = 70,      // a defect of satformer
  out_of_time = 75,   // saved before --max-time or after SIGUSR1 or SIGUSR2; to be started again
  interrupted = 130,  // stopped by Ctrl-C after saving
  terminated = 143,   // stopped by SIGTERM or SIGHUP after saving
};

class Error : public std::runtime_error {
 public:
  // Zero bytes, at which what() would end, are shown as \x00.
  Error(ExitCode code, const std::string& message);
  ExitCode code() const { return code_; }

 private:
  ExitCode code_;
};

// Joins its arguments as an ostream would print them.
template <class... Args>
std::string concat(const Args&... args) {
  std::ostringstream out;
  (out << ... << args);
  return out.str();
}

template <class... Args>
[[noreturn]] void fail(ExitCode code, const Args&... args) {
  throw Error(code, concat(args...));
}

// Throws Error(system) with the file, what was being done, and errno's text.
[[noreturn]] void fail_errno(std::string_view action, std::string_view path, int error_number);

// Damerau-Levenshtein distance (adjacent transpositions count once), ignoring case and '-' against '_'.
std::size_t edit_distance(std::string_view a, std::string_view b);

// The candidate with the smallest edit distance to `name`, if it is near enough to be a likely misspelling.
std::optional<std::string> nearest(std::string_view name, std::span<const std::string> candidates);

// " Did you mean 'X'?" or an empty string.
std::string did_you_mean(std::string_view name, std::span<const std::string> candidates);

}  // namespace satformer
