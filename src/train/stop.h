// Ctrl-C, SIGTERM and a lost terminal (SIGHUP) during long work: the first asks to stop and save, a second one ends
// the process at once. SIGUSR1 and SIGUSR2, which schedulers send some time before they end a job (Slurm's --signal),
// ask for the same; the SIGTERM that follows them does not hurry the saving.
#pragma once

#include "base/error.h"

namespace satformer {

// Handles SIGINT, SIGTERM, SIGUSR1, SIGUSR2 and, unless it is ignored (nohup), SIGHUP while it lives; at most one at
// a time. Also ignores SIGXFSZ, so that a file-size limit is an error of the write that met it.
class StopSignals {
 public:
  StopSignals();
  ~StopSignals();
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;

  static bool requested();
  static ExitCode exit_code();             // interrupted, terminated or out_of_time; ok if nothing was requested
  static void request(int signal_number);  // as if the signal had come (tests)
};

}  // namespace satformer
