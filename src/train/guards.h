// What watches a run: spikes of loss or gradient, and the time that is left.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/config.h"

namespace satformer {

struct SpikeOptions {
  std::string action = "none";  // none | skip | rewind
  double threshold = 8;         // deviations
  std::int64_t window = 100;    // steps
  std::int64_t limit = 5;
  void visit(FieldVisitor& visitor);
};

// A step is a spike if its loss or its gradient norm exceeds median + threshold * deviation of the last `window`
// steps that were no spikes, where deviation is 1.4826 times the median distance from the median (a normal
// distribution's standard deviation), and at least 1 % of the median's size. Before `window` steps are known there
// are none.
class SpikeGuard {
 public:
  explicit SpikeGuard(const SpikeOptions& options) : options_(options) {}

  bool on() const { return options_.action != "none"; }
  bool rewinds() const { return options_.action == "rewind"; }
  struct Bounds {
    double loss, norm;
  };
  std::optional<Bounds> bounds() const;  // empty while too few steps are known, or if off
  // Whether a step's loss and norm are a spike; those of other steps become part of what is known.
  bool look(double loss, double norm);
  // Counts a spike acted on. Error(non_finite) if it is one more than `limit` with fewer than `window` good steps
  // since the first of them; `step` and what is wrong are named.
  void count(std::int64_t step, double loss, double norm);
  std::int64_t counted() const { return spikes_; }

  // For the training state, so that a resumed run decides as an unbroken one. Empty if nothing is known.
  std::string state() const;
  // Error(checkpoint) for a text that is none. `keep_count`: the spikes counted here stay.
  void restore(const std::string& state, bool keep_count = false);

 private:
  SpikeOptions options_;
  std::deque<double> losses_, norms_;
  std::int64_t spikes_ = 0, calm_steps_ = 0;
};

// Median of values (not empty), and 1.4826 times the median of their distances from it.
struct MedianSpread {
  double median, deviation;
};
MedianSpread median_spread(std::vector<double> values);

// "90", "90s", "15m", "2h", "1d", "MM:SS", "HH:MM:SS" or "D-HH:MM:SS" in seconds. Error(usage) with `option`'s name.
double parse_duration(std::string_view text, std::string_view option);

// The moment at which a run must have ended. What is still to be done has to fit before it.
class TimeLimit {
 public:
  using Clock = std::chrono::steady_clock;
  TimeLimit() = default;
  explicit TimeLimit(std::optional<Clock::time_point> end) : end_(end) {}
  // Longest so far, of what may still have to be waited for.
  void saw_save(double seconds) { save_ = std::max(save_.value_or(0), seconds); }
  void saw_pass(double seconds) { pass_ = std::max(pass_, seconds); }
  void expect_save(double seconds) { first_save_ = seconds; }  // until one was seen
  bool over(Clock::time_point now) const;

 private:
  std::optional<Clock::time_point> end_;
  std::optional<double> save_;
  double first_save_ = 0, pass_ = 0;
};

}  // namespace satformer
