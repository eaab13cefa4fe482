// Progress of long work: one rewritten line on a terminal, plain lines at intervals in a pipe. Writes to stderr.
#pragma once

#include <chrono>
#include <string>
#include <string_view>

namespace satformer {

bool is_terminal(int descriptor);            // false when TERM is dumb
bool use_color(int descriptor);              // a terminal, and NO_COLOR is not set
std::string human_bytes(double bytes);       // "1.5 GiB"
std::string human_count(double value);       // "128.4M"
std::string human_duration(double seconds);  // "2h03m", "4m10s", "12.3s"

class ProgressLine {
 public:
  // In a pipe, at most one line every `pipe_interval` seconds.
  explicit ProgressLine(double pipe_interval = 5.0);
  ~ProgressLine();
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;

  void update(std::string_view text);  // may be skipped
  void print(std::string_view text);   // a permanent line, above the progress line
  void finish(std::string_view text);  // a permanent last line

 private:
  void clear();
  bool terminal_;
  double pipe_interval_;
  bool shown_ = false;
  std::chrono::steady_clock::time_point last_{};
};

}  // namespace satformer
