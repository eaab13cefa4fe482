#include "base/progress.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace satformer {

bool is_terminal(int descriptor) {
  const char* term = std::getenv("TERM");
  return isatty(descriptor) != 0 && !(term && std::strcmp(term, "dumb") == 0);
}

bool use_color(int descriptor) {
  const char* no_color = std::getenv("NO_COLOR");
  return is_terminal(descriptor) && !(no_color && *no_color);
}

namespace {
std::string print(const char* format, double value, const char* unit) {
  char buffer[64];
  std::snprintf(buffer, sizeof buffer, format, value, unit);
  return buffer;
}
}  // namespace

std::string human_bytes(double bytes) {
  static const char* units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
  int unit = 0;
  while (std::abs(bytes) >= 1024 && unit < 5) {
    bytes /= 1024;
    ++unit;
  }
  return print(unit == 0 ? "%.0f %s" : "%.1f %s", bytes, units[unit]);
}

std::string human_count(double value) {
  static const char* units[] = {"", "K", "M", "B", "T", "P", "E"};
  int unit = 0;
  while (std::abs(value) >= 1000 && unit < 6) {
    value /= 1000;
    ++unit;
  }
  return print(unit == 0 ? "%.0f%s" : (std::abs(value) >= 100 ? "%.1f%s" : "%.2f%s"), value, units[unit]);
}

std::string human_duration(double seconds) {
  if (!std::isfinite(seconds)) return "?";
  if (seconds < 60) return print("%.1f%s", seconds, "s");
  char buffer[64];
  const auto total = static_cast<long long>(seconds + 0.5);
  if (total < 3600) {
    std::snprintf(buffer, sizeof buffer, "%lldm%02llds", total / 60, total % 60);
  } else if (total < 86400) {
    std::snprintf(buffer, sizeof buffer, "%lldh%02lldm", total / 3600, total / 60 % 60);
  } else {
    std::snprintf(buffer, sizeof buffer, "%lldd%02lldh", total / 86400, total / 3600 % 24);
  }
  return buffer;
}

ProgressLine::ProgressLine(double pipe_interval)
    : terminal_(is_terminal(STDERR_FILENO)), pipe_interval_(pipe_interval) {}

ProgressLine::~ProgressLine() { clear(); }

void ProgressLine::clear() {
  if (terminal_ && shown_) std::fputs("\r\033[K", stderr);
  shown_ = false;
}

void ProgressLine::update(std::string_view text) {
  const auto now = std::chrono::steady_clock::now();
  const double elapsed = std::chrono::duration<double>(now - last_).count();
  const bool first = last_ == std::chrono::steady_clock::time_point{};
  if (!first && elapsed < (terminal_ ? 0.1 : pipe_interval_)) return;
  last_ = now;
  if (terminal_) {
    winsize size{};
    const std::size_t width =
        ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 1 ? size.ws_col - 1u : 119u;
    std::fprintf(stderr, "\r\033[K%.*s", static_cast<int>(std::min(text.size(), width)), text.data());
    shown_ = true;
  } else {
    std::fprintf(stderr, "%.*s\n", static_cast<int>(text.size()), text.data());
  }
  std::fflush(stderr);
}

void ProgressLine::print(std::string_view text) {
  clear();
  std::fprintf(stderr, "%.*s\n", static_cast<int>(text.size()), text.data());
  std::fflush(stderr);
}

void ProgressLine::finish(std::string_view text) { print(text); }

}  // namespace satformer
