#include "base/error.h"

#include <algorithm>
#include <cctype>
#include <cstring>
#include <numeric>
#include <vector>

namespace satformer {

namespace {

std::string without_zero_bytes(const std::string& text) {
  std::string shown;
  for (const char c : text) {
    if (c == '\0') {
      shown += "\\x00";
    } else {
      shown += c;
    }
  }
  return shown;
}

}  // namespace

Error::Error(ExitCode code, const std::string& message)
    : std::runtime_error(without_zero_bytes(message)), code_(code) {}

void fail_errno(std::string_view action, std::string_view path, int error_number) {
  fail(ExitCode::system, "cannot ", action, " '", path, "': ", std::strerror(error_number));
}

namespace {

char fold(char c) {
  if (c == '-') return '_';
  return static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
}

}  // namespace

std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> before(b.size() + 1), previous(b.size() + 1), current(b.size() + 1);
  std::iota(previous.begin(), previous.end(), std::size_t{0});
  for (std::size_t i = 1; i <= a.size(); ++i) {
    current[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const bool same = fold(a[i - 1]) == fold(b[j - 1]);
      current[j] = std::min({previous[j] + 1, current[j - 1] + 1, previous[j - 1] + (same ? 0 : 1)});
      if (i > 1 && j > 1 && fold(a[i - 1]) == fold(b[j - 2]) && fold(a[i - 2]) == fold(b[j - 1])) {
        current[j] = std::min(current[j], before[j - 2] + 1);
      }
    }
    before.swap(previous);
    previous.swap(current);
  }
  return previous[b.size()];
}

std::optional<std::string> nearest(std::string_view name, std::span<const std::string> candidates) {
  std::optional<std::string> best;
  std::size_t best_distance = std::max<std::size_t>(2, name.size() / 3) + 1;
  for (const std::string& candidate : candidates) {
    const std::size_t distance = edit_distance(name, candidate);
    if (distance < best_distance) {
      best_distance = distance;
      best = candidate;
    }
  }
  return best;
}

std::string did_you_mean(std::string_view name, std::span<const std::string> candidates) {
  const auto match = nearest(name, candidates);
  return match ? concat(" Did you mean '", *match, "'?") : std::string();
}

}  // namespace satformer
