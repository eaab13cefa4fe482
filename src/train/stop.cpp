#include "train/stop.h"

#include <signal.h>
#include <unistd.h>

#include <string_view>

namespace satformer {
namespace {

// A signal handler can reach nothing but static storage.
volatile sig_atomic_t stop_signal = 0;
struct sigaction before_interrupt, before_terminate, before_hangup, before_size;

void on_signal(int number) {
  if (stop_signal != 0) _exit(128 + number);
  stop_signal = number;
  constexpr std::string_view text = "\nstopping: saving first; once more to end at once\n";
  [[maybe_unused]] const auto written = write(STDERR_FILENO, text.data(), text.size());
}

}  // namespace

StopSignals::StopSignals() {
  stop_signal = 0;
  struct sigaction action {};
  action.sa_handler = on_signal;
  action.sa_flags = SA_RESTART;
  sigemptyset(&action.sa_mask);
  sigaction(SIGINT, &action, &before_interrupt);
  sigaction(SIGTERM, &action, &before_terminate);
  sigaction(SIGHUP, nullptr, &before_hangup);
  if (before_hangup.sa_handler != SIG_IGN) sigaction(SIGHUP, &action, nullptr);
  action.sa_handler = SIG_IGN;
  sigaction(SIGXFSZ, &action, &before_size);
}

StopSignals::~StopSignals() {
  sigaction(SIGINT, &before_interrupt, nullptr);
  sigaction(SIGTERM, &before_terminate, nullptr);
  sigaction(SIGHUP, &before_hangup, nullptr);
  sigaction(SIGXFSZ, &before_size, nullptr);
}

bool StopSignals::requested() { return stop_signal != 0; }

ExitCode StopSignals::exit_code() {
  if (stop_signal == SIGINT) return ExitCode::interrupted;
  return stop_signal == 0 ? ExitCode::ok : ExitCode::terminated;
}

void StopSignals::request(int signal_number) { stop_signal = signal_number; }

}  // namespace satformer
