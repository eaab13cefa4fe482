// Programs run beside this one, several at once.
#pragma once

#include <string>
#include <vector>

namespace satformer {

struct ProcessSpec {
  std::vector<std::string> arguments;  // of this program
  std::string log;                     // output and errors are appended here
};

// A copy of this program at work. It is in a process group of its own, so that a Ctrl-C at the terminal reaches it
// only through stop(), and is asked to stop if this process dies. Configuration variables (SATFORMER_SECTION__KEY)
// are not passed on.
class Process {
 public:
  explicit Process(const ProcessSpec& spec);  // Error(system) if it cannot be started
  ~Process();                                 // stops it and waits
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  bool running();                          // false once it has ended
  int exit_code() const { return code_; }  // after its end: 128 + signal if a signal ended it
  void stop();                             // asks it to save and end
 private:
  int pid_ = -1;
  int code_ = -1;
};

// Runs to the end. The exit code.
int run_process(const ProcessSpec& spec);

// Last line of a log that is not empty, without control characters; for messages.
std::string last_line(const std::string& path);

}  // namespace satformer
