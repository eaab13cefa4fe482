// Two arms measured in turn, A-B-B-A, so that a slow drift of the machine hits both alike.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "bench/arm.h"
#include "bench/statistics.h"

namespace satformer {

struct Round {
  double a = 0, b = 0;  // tokens a second
  double limit = 0;     // what `PairOptions::limit` gave between the two
  double foreign = 0;   // share of the machine's CPU time that others took
  bool clean = true;    // counted
};

struct PairOptions {
  int rounds = 9;                      // clean ones
  double seconds = 2;                  // least time of one measurement
  double max_foreign = 0.1;            // a round with more is measured again, at most `rounds` times in all
  std::function<double()> limit = {};  // measured in each round, so that a share of it is one of the same moment
  std::function<void(const Round& round, int done)> progress;
};

struct PairResult {
  std::vector<Round> rounds;  // in order, dropped ones too
  int dropped = 0;
  bool clean_enough = true;  // false: too few clean rounds were had, so all count
  double a = 0, b = 0;       // medians, tokens a second
  double ratio = 0;          // median of a / b
  double per_limit = 0;      // median of a / limit; 0 without one
  Interval interval;         // 95 %, of that median
  double a_peak_bytes = 0, b_peak_bytes = 0;
  double a_saved_bytes = 0, b_saved_bytes = 0;
};

// One uncounted measurement of each arm first.
PairResult compare_arms(Arm& a, Arm& b, const PairOptions& options);

}  // namespace satformer
