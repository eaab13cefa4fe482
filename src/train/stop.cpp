#include "train/stop.h"

#include <signal.h>
#include <unistd.h>

#include <array>
#include <cstddef>
#include <string_view>

namespace satformer {
namespace {

constexpr std::array asking = {SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2};

// A signal handler can reach nothing but static storage.
volatile sig_atomic_t stop_signal = 0;
std::array<struct sigaction, asking.size()> before;
struct sigaction before_size;

bool announces(int number) { return number == SIGUSR1 || number == SIGUSR2; }

void on_signal(int number) {
  if (stop_signal != 0) {
    if (announces(number)) return;
    if (!announces(stop_signal) || number == SIGINT) _exit(128 + number);
    stop_signal = number;
    return;
  }
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
  for (std::size_t i = 0; i < asking.size(); ++i) {
    sigaction(asking[i], nullptr, &before[i]);
    if (asking[i] != SIGHUP || before[i].sa_handler != SIG_IGN) sigaction(asking[i], &action, nullptr);
  }
  action.sa_handler = SIG_IGN;
  sigaction(SIGXFSZ, &action, &before_size);
}

StopSignals::~StopSignals() {
  for (std::size_t i = 0; i < asking.size(); ++i) sigaction(asking[i], &before[i], nullptr);
  sigaction(SIGXFSZ, &before_size, nullptr);
}

bool StopSignals::requested() { return stop_signal != 0; }

ExitCode StopSignals::exit_code() {
  if (stop_signal == SIGINT) return ExitCode::interrupted;
  if (announces(stop_signal)) return ExitCode::out_of_time;
  return stop_signal == 0 ? ExitCode::ok : ExitCode::terminated;
}

void StopSignals::request(int signal_number) { stop_signal = signal_number; }

}  // namespace satformer
