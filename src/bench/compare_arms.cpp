#include "bench/compare_arms.h"

#include <algorithm>

#include "bench/machine.h"

namespace satformer {

PairResult compare_arms(Arm& a, Arm& b, const PairOptions& options) {
  PairResult result;
  const auto run = [&](Arm& arm, double& peak, double& saved) {
    const ArmMeasurement m = arm.measure(options.seconds);
    peak = std::max(peak, m.peak_bytes);
    saved = std::max(saved, m.saved_bytes);
    return m.tokens_per_second;
  };
  const auto run_a = [&] { return run(a, result.a_peak_bytes, result.a_saved_bytes); };
  const auto run_b = [&] { return run(b, result.b_peak_bytes, result.b_saved_bytes); };
  run_a();
  run_b();
  std::vector<int> own;
  for (const int pid : {a.pid(), b.pid()}) {
    if (pid > 0) own.push_back(pid);
  }
  int clean = 0;
  while (clean < options.rounds && std::ssize(result.rounds) < 2 * options.rounds) {
    const CpuLoad load(own);
    Round round;
    const bool a_first = result.rounds.size() % 2 == 0;
    (a_first ? round.a : round.b) = a_first ? run_a() : run_b();
    if (options.limit) round.limit = options.limit();
    (a_first ? round.b : round.a) = a_first ? run_b() : run_a();
    round.foreign = load.foreign_share();
    round.clean = round.foreign <= options.max_foreign;
    clean += round.clean;
    result.rounds.push_back(round);
    if (options.progress) options.progress(round, clean);
  }
  result.clean_enough = clean >= options.rounds;
  std::vector<double> ratios, as, bs, shares;
  for (const Round& round : result.rounds) {
    if (result.clean_enough && !round.clean) {
      ++result.dropped;
      continue;
    }
    ratios.push_back(round.a / round.b);
    as.push_back(round.a);
    bs.push_back(round.b);
    if (round.limit > 0) shares.push_back(round.a / round.limit);
  }
  result.a = median(as);
  result.b = median(bs);
  result.ratio = median(ratios);
  if (!shares.empty()) result.per_limit = median(shares);
  result.interval = bootstrap_median(ratios);
  return result;
}

}  // namespace satformer
