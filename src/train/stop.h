// Ctrl-C, SIGTERM and a lost terminal (SIGHUP) during long work: the first asks to stop and save, a second one ends
// the process at once.
#pragma once

#include "base/error.h"

namespace satformer {

// Handles SIGINT, SIGTERM and, unless it is ignored (nohup), SIGHUP while it lives; at most one at a time. Also
// ignores SIGXFSZ, so that a file-size limit is an error of the write that met it.
class StopSignals {
 public:
  StopSignals();
  ~StopSignals();
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;

  static bool requested();
  static ExitCode exit_code();             // interrupted or terminated; ok if nothing was requested
  static void request(int signal_number);  // as if the signal had come (tests)
};

}  // namespace satformer
