#include "compare/summary.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <set>

#include "base/error.h"
#include "bench/statistics.h"
#include "compare/runner.h"
#include "eval/compare.h"

namespace satformer {
namespace {

constexpr double nan = std::numeric_limits<double>::quiet_NaN();
constexpr double infinity = std::numeric_limits<double>::infinity();

// 97.5 % quantile of Student's t.
double student_quantile(std::size_t degrees) {
  static constexpr std::array<double, 30> table = {
      12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131,
      2.120,  2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042};
  if (degrees <= table.size()) return table[degrees - 1];
  const auto d = static_cast<double>(degrees);
  return 1.95996 + 2.3723 / d + 2.8225 / (d * d);
}

using Seeded = std::vector<std::pair<std::int64_t, const RunResult*>>;

// Values of both arms of the seeds that both have; the difference of each.
template <class Value>
std::vector<double> paired(const Seeded& own, const Seeded& other, const Value& value) {
  std::vector<double> differences;
  for (const auto& [seed, mine] : own) {
    for (const auto& [other_seed, theirs] : other) {
      if (seed != other_seed) continue;
      const std::optional<double> a = value(*mine), b = value(*theirs);
      if (a && b) differences.push_back(*a - *b);
    }
  }
  return differences;
}

template <class Value>
std::vector<double> collect(const Seeded& runs, const Value& value) {
  std::vector<double> values;
  for (const auto& [seed, run] : runs) {
    if (const std::optional<double> v = value(*run)) values.push_back(*v);
  }
  return values;
}

std::optional<double> last_of(const RunResult& run, const std::string& metric) {
  const auto it = run.last.find(metric);
  return it == run.last.end() ? std::nullopt : std::optional<double>(it->second);
}

ToTarget to_target(const Seeded& runs, const CompareTarget& target, double value, double flops_per_token) {
  ToTarget result;
  result.value = value;
  std::vector<double> steps, tokens, seconds, flops;
  for (const auto& [seed, run] : runs) {
    const auto it = run->curves.find(target.metric);
    if (it == run->curves.end()) continue;
    const Curve& curve = it->second;
    const auto at = first_at(curve, value, target.higher_is_better);
    ++result.runs;
    if (at) ++result.reached;
    if (!at) {
      result.longest = std::max(result.longest, curve.steps.back());
      result.longest_seconds = std::max(result.longest_seconds, curve.seconds.back());
    }
    steps.push_back(at ? curve.steps[*at] : infinity);
    tokens.push_back(at ? curve.tokens[*at] : infinity);
    seconds.push_back(at ? curve.seconds[*at] : infinity);
    flops.push_back(at ? curve.tokens[*at] * flops_per_token : infinity);
  }
  result.steps = median_estimate(steps);
  result.tokens = median_estimate(tokens);
  result.seconds = median_estimate(seconds);
  result.flops = median_estimate(flops);
  return result;
}

// With one seed: the difference and its interval over the task's documents, which both models were asked.
SeedEstimate over_documents(const Seeded& own, const Seeded& other, const std::string& task) {
  for (const auto& [seed, mine] : own) {
    for (const auto& [other_seed, theirs] : other) {
      if (seed != other_seed || !mine->tasks.contains(task) || !theirs->tasks.contains(task)) continue;
      const TaskScore &a = mine->tasks.at(task), &b = theirs->tasks.at(task);
      if (a.samples.empty() || b.samples.empty()) return {1, a.value - b.value, nan, nan};
      for (const PairedDifference& d : compare_samples(b.samples, a.samples)) {
        // A perplexity is no mean over documents: it has no interval here.
        const bool mean = std::abs(d.second - a.value) <= 1e-6 * std::max(1.0, std::abs(a.value));
        if (d.metric == a.metric && mean) return {1, d.difference, d.low, d.high};
      }
      return {1, a.value - b.value, nan, nan};
    }
  }
  return {};
}

void summarise_tasks(ArmSummary& arm, const Seeded& own, const Seeded& other) {
  std::set<std::string> names;
  for (const auto& [seed, run] : own) {
    for (const auto& [task, score] : run->tasks) names.insert(task);
  }
  for (const std::string& task : names) {
    const auto value = [&](const RunResult& run) -> std::optional<double> {
      const auto it = run.tasks.find(task);
      return it == run.tasks.end() ? std::nullopt : std::optional<double>(it->second.value);
    };
    const auto error = [&](const RunResult& run) -> std::optional<double> {
      const auto it = run.tasks.find(task);
      if (it == run.tasks.end() || !std::isfinite(it->second.error)) return std::nullopt;
      return it->second.error;
    };
    arm.tasks[task] = mean_of(collect(own, value));
    arm.task_errors[task] = mean_of(collect(own, error)).mean;
    arm.task_differences[task] = mean_of(paired(own, other, value));
    if (arm.task_differences[task].n == 1) arm.task_differences[task] = over_documents(own, other, task);
  }
}

}  // namespace

SeedEstimate mean_of(std::span<const double> values) {
  SeedEstimate e{values.size(), nan, nan, nan};
  if (values.empty()) return e;
  double sum = 0, squares = 0;
  for (const double v : values) sum += v;
  e.mean = sum / static_cast<double>(values.size());
  if (values.size() < 2) return e;
  for (const double v : values) squares += (v - e.mean) * (v - e.mean);
  const auto n = static_cast<double>(values.size());
  const double half = student_quantile(values.size() - 1) * std::sqrt(squares / (n - 1) / n);
  e.low = e.mean - half;
  e.high = e.mean + half;
  return e;
}

SeedEstimate median_estimate(std::span<const double> values) {
  SeedEstimate e{values.size(), nan, nan, nan};
  if (values.empty()) return e;
  e.mean = median({values.begin(), values.end()});
  if (values.size() < 2) return e;
  const Interval interval = bootstrap_median(values);
  e.low = interval.low;
  e.high = interval.high;
  return e;
}

std::string ArmSummary::verdict(bool higher_is_better) const {
  if (against.empty()) return "";
  if (difference.n < 2 || !std::isfinite(difference.low)) return "one seed shows no difference";
  if (difference.low <= 0 && difference.high >= 0) return "no difference shown";
  return (difference.mean > 0) == higher_is_better ? "better" : "worse";
}

const ArmSummary& Comparison::arm(const CompareGroup& group, const std::string& name) const {
  for (const ArmSummary& a : arms) {
    if (a.group == group && a.arm == name) return a;
  }
  fail(ExitCode::internal, "no summary of arm '", name, "'");
}

Seeded Comparison::trained(const CompareGroup& group, const std::string& arm) const {
  Seeded list;
  for (const PlannedRun& run : plan->runs) {
    if (run.group != group || run.arm != arm) continue;
    const auto it = runs.find(run.folder);
    if (it != runs.end() && it->second.trained) list.emplace_back(run.seed, &it->second);
  }
  return list;
}

Comparison summarise(const Plan& plan) {
  Comparison c;
  c.plan = &plan;
  for (const PlannedRun& run : plan.runs) c.runs[run.folder] = read_run(plan, run);
  c.speeds = read_speeds(plan);
  const CompareTarget& target = plan.spec.target;
  for (const CompareGroup& group : plan.groups) {
    const auto final = [&](const RunResult& run) { return last_of(run, target.metric); };
    const SeedEstimate base = mean_of(collect(c.trained(group, plan.spec.baseline), final));
    const double value = target.value.value_or(base.mean);  // NaN: nothing to reach
    for (const CompareArm& arm : plan.spec.arms) {
      ArmSummary a;
      a.group = group;
      a.arm = arm.name;
      a.against = arm.against.empty() ? plan.spec.baseline : arm.against;
      if (a.against == a.arm) a.against.clear();
      a.planned = plan.spec.seeds.size();
      const Seeded own = c.trained(group, arm.name);
      const Seeded other = a.against.empty() ? Seeded() : c.trained(group, a.against);
      a.final = mean_of(collect(own, final));
      a.difference = mean_of(paired(own, other, final));
      if (std::isfinite(value)) a.target = to_target(own, target, value, plan.cost(group, arm.name).flops_per_token);
      summarise_tasks(a, own, other);
      c.arms.push_back(std::move(a));
    }
  }
  return c;
}

}  // namespace satformer
