#include <algorithm>
#include <cmath>
#include <cstdio>
#include <set>

#include "base/progress.h"
#include "compare/report.h"

namespace satformer {
namespace {

std::string fixed(double value, int digits) {
  if (!std::isfinite(value)) return "–";
  char text[48];
  std::snprintf(text, sizeof text, "%.*f", digits, std::fabs(value));
  return (value < 0 && std::string(text).find_first_of("123456789") != std::string::npos ? "−" : "") +
         std::string(text);
}

std::string signed_fixed(double value, int digits) { return (value > 0 ? "+" : "") + fixed(value, digits); }

std::string interval_text(const SeedEstimate& e, int digits) {
  if (!std::isfinite(e.low)) return "";
  return "[" + fixed(e.low, digits) + ", " + fixed(e.high, digits) + "]";
}

int digits_of(const std::string& metric) { return metric.find("perplexity") != std::string::npos ? 2 : 4; }

Cell mean_cell(const SeedEstimate& e, int digits, bool best) {
  if (e.n == 0) return {};
  const double half = (e.high - e.low) / 2;
  return {fixed(e.mean, digits), e.mean, std::isfinite(half) ? "± " + fixed(half, digits) : "", best};
}

Cell difference_cell(const SeedEstimate& e, int digits) {
  if (e.n == 0) return {};
  return {signed_fixed(e.mean, digits), e.mean, interval_text(e, digits)};
}

// "N" or, where more than half of the runs ended before the target, "> N".
Cell reached_cell(const SeedEstimate& e, const ToTarget& t, double longest, const auto& text) {
  if (t.runs == 0) return {};
  if (!std::isfinite(e.mean)) return {"> " + text(longest), e.mean};
  std::string note;
  if (std::isfinite(e.low)) {
    note = "[" + text(e.low) + ", " + (std::isfinite(e.high) ? text(e.high) : "> " + text(longest)) + "]";
  }
  return {text(e.mean), e.mean, note};
}

std::string steps_text(double value) { return fixed(value, 0); }
std::string count_text(double value) { return human_count(value); }
std::string seconds_text(double value) { return human_duration(value); }

// Whether no arm of a group has a better value than `a`, whose value is finite; equal ones are all best.
bool is_best(const Comparison& c, const ArmSummary& a, bool higher, const auto& value) {
  const double own = value(a);
  return std::isfinite(own) && std::none_of(c.arms.begin(), c.arms.end(), [&](const ArmSummary& other) {
           const double v = value(other);
           return other.group == a.group && std::isfinite(v) && (higher ? v > own : v < own);
         });
}

Cell seeds_cell(std::size_t done, std::size_t planned) {
  return {done == planned ? std::to_string(planned) : std::to_string(done) + " of " + std::to_string(planned),
          static_cast<double>(done)};
}

Table results_table(const Comparison& c) {
  const CompareSpec& spec = c.plan->spec;
  const bool groups = c.plan->groups.size() > 1;
  const int digits = digits_of(spec.target.metric);
  Table table;
  table.caption = "Results";
  if (groups) table.columns.push_back({"data"});
  table.columns.push_back({"arm"});
  table.columns.insert(table.columns.end(), {{"parameters", true},
                                             {"against", true, "%"},
                                             {"FLOPs/token", true},
                                             {"seeds", true},
                                             {spec.target.metric, true},
                                             {"difference", true}});
  std::set<std::string> mismatched;
  for (const ArmSummary& a : c.arms) {
    const ArmCost& cost = c.plan->cost(a.group, a.arm);
    std::vector<Cell> row;
    if (groups) row.emplace_back(group_title(a.group));
    row.emplace_back(a.arm);
    row.emplace_back(human_count(static_cast<double>(cost.parameters)), static_cast<double>(cost.parameters));
    if (a.against.empty()) {
      row.emplace_back();
    } else {
      const ArmCost& base = c.plan->cost(a.group, a.against);
      const double more = static_cast<double>(cost.parameters) / static_cast<double>(base.parameters) - 1;
      const double flops = cost.flops_per_token / base.flops_per_token - 1;
      row.emplace_back(signed_fixed(100 * more, 2), 100 * more);
      if (std::abs(more) > spec.matched_within || std::abs(flops) > spec.matched_within) mismatched.insert(a.arm);
    }
    row.emplace_back(human_count(cost.flops_per_token), cost.flops_per_token);
    row.push_back(seeds_cell(a.final.n, a.planned));
    const bool higher = spec.target.higher_is_better;
    row.push_back(
        mean_cell(a.final, digits, is_best(c, a, higher, [](const ArmSummary& s) { return s.final.mean; })));
    row.push_back(difference_cell(a.difference, digits));
    table.rows.push_back(std::move(row));
  }
  table.notes.push_back("Means over seeds with 95 % Student intervals; differences are paired by seed, against the " +
                        std::string("baseline (") + spec.baseline + ") unless an arm names another.");
  for (const std::string& arm : mismatched) {
    table.notes.push_back("Not matched: parameters or FLOPs of " + arm +
                          " differ from what it is compared with by more than " +
                          fixed(100 * spec.matched_within, 1) + " %.");
  }
  return table;
}

Table target_table(const Comparison& c) {
  const CompareSpec& spec = c.plan->spec;
  const bool groups = c.plan->groups.size() > 1;
  Table table;
  table.caption = "To the target";
  if (groups) table.columns.push_back({"data"});
  table.columns.push_back({"arm"});
  table.columns.insert(table.columns.end(),
                       {{"reached", true}, {"steps", true}, {"tokens", true}, {"time", true}, {"FLOPs", true}});
  for (const ArmSummary& a : c.arms) {
    if (!a.target || a.target->runs == 0) continue;
    const ToTarget& t = *a.target;
    const ArmCost& cost = c.plan->cost(a.group, a.arm);
    const double tokens = t.longest * static_cast<double>(cost.tokens_per_step);
    std::vector<Cell> row;
    if (groups) row.emplace_back(group_title(a.group));
    row.emplace_back(a.arm);
    row.emplace_back(std::to_string(t.reached) + " of " + std::to_string(t.runs), static_cast<double>(t.reached));
    row.push_back(reached_cell(t.steps, t, t.longest, steps_text));
    row.back().best = is_best(c, a, false, [](const ArmSummary& s) { return s.target ? s.target->steps.mean : NAN; });
    row.push_back(reached_cell(t.tokens, t, tokens, count_text));
    row.push_back(reached_cell(t.seconds, t, t.longest_seconds, seconds_text));
    row.push_back(reached_cell(t.flops, t, tokens * cost.flops_per_token, count_text));
    table.rows.push_back(std::move(row));
  }
  if (spec.target.value) {
    table.notes.push_back("Target: " + spec.target.metric + (spec.target.higher_is_better ? " ≥ " : " ≤ ") +
                          number_text(*spec.target.value) + ".");
  } else {
    table.notes.push_back("Target: the baseline's mean " + spec.target.metric + " at its end.");
  }
  table.notes.push_back(
      "Medians over seeds with 95 % bootstrap intervals; > N: half of the runs ended in N before it.");
  if (c.plan->parallel > 1) {
    table.notes.push_back("Times: seconds of training with " + std::to_string(c.plan->parallel) +
                          " runs at once on this machine; the speed table is measured one at a time.");
  }
  return table;
}

Table task_table(const Comparison& c) {
  Table table;
  table.caption = "Tasks";
  const bool groups = c.plan->groups.size() > 1;
  std::set<std::string> names;
  std::map<std::string, const TaskScore*> scores;
  for (const auto& [folder, run] : c.runs) {
    for (const auto& [task, score] : run.tasks) {
      names.insert(task);
      scores[task] = &score;
    }
  }
  if (groups) table.columns.push_back({"data"});
  table.columns.push_back({"arm"});
  table.columns.push_back({"seeds", true});
  for (const std::string& task : names) {
    table.columns.push_back({task + ", " + scores[task]->metric, true});
    table.columns.push_back({task + ", difference", true});
  }
  for (const ArmSummary& a : c.arms) {
    std::vector<Cell> row;
    if (groups) row.emplace_back(group_title(a.group));
    row.emplace_back(a.arm);
    std::size_t seeds = 0;
    for (const auto& [task, estimate] : a.tasks) seeds = std::max(seeds, estimate.n);
    row.push_back(seeds_cell(seeds, a.planned));
    for (const std::string& task : names) {
      const auto it = a.tasks.find(task);
      if (it == a.tasks.end() || it->second.n == 0) {
        row.emplace_back();
        row.emplace_back();
        continue;
      }
      const bool best = is_best(c, a, scores[task]->higher_is_better, [&](const ArmSummary& s) {
        const auto found = s.tasks.find(task);
        return found == s.tasks.end() ? NAN : found->second.mean;
      });
      const double error = a.task_errors.at(task);
      row.emplace_back(fixed(it->second.mean, 4), it->second.mean,
                       std::isfinite(error) ? "± " + fixed(error, 4) : std::string(), best);
      row.push_back(difference_cell(a.task_differences.at(task), 4));
    }
    table.rows.push_back(std::move(row));
  }
  table.notes.push_back(
      "Means over seeds; ± is the standard error over a task's documents. Differences are paired by seed, "
      "with 95 % Student intervals; with one seed, by document, with 95 % bootstrap intervals.");
  return table;
}

Table speed_table(const Comparison& c) {
  const CompareMeasurement& m = c.plan->spec.measurement;
  Table table;
  table.caption = "Speed and memory";
  table.columns = {{"arm"},
                   {"against"},
                   {"phase"},
                   {"tokens/s", true},
                   {"ratio", true},
                   {"peak memory", true},
                   {"memory ratio", true}};
  for (const SpeedResult& s : c.speeds) {
    table.rows.push_back({s.arm,
                          s.against,
                          s.phase,
                          {human_count(s.tokens_per_second), s.tokens_per_second},
                          {fixed(s.ratio, 3), s.ratio, "[" + fixed(s.low, 3) + ", " + fixed(s.high, 3) + "]"},
                          {human_bytes(s.peak_bytes), s.peak_bytes},
                          {fixed(s.peak_bytes / s.against_peak_bytes, 3), s.peak_bytes / s.against_peak_bytes}});
  }
  table.notes.push_back("Medians of " + std::to_string(m.rounds) +
                        " paired rounds (where others used the machine: of up to twice as many), A-B-B-A, batch " +
                        std::to_string(m.batch_size) + ", context " + std::to_string(m.context) + ", " + m.dtype +
                        "; 95 % bootstrap intervals.");
  for (const SpeedResult& s : c.speeds) {
    if (!s.clean)
      table.notes.push_back("Others used the machine in too many rounds of " + s.arm + ", " + s.phase + ".");
  }
  return table;
}

Table reported_table(const Comparison& c) {
  Table table;
  table.caption = "Reported by the paper";
  table.columns = {{"claim"}, {"reported"}};
  for (const ReportedClaim& r : c.plan->spec.reported) table.rows.push_back({r.claim, r.reported});
  table.notes.push_back("From accounts of arXiv 2605.03953, at other scales and on other data; not measured here.");
  return table;
}

}  // namespace

std::vector<NamedTable> comparison_tables(const Comparison& comparison) {
  std::vector<NamedTable> tables = {{"results", results_table(comparison)}};
  Table target = target_table(comparison);
  if (!target.rows.empty()) tables.push_back({"target", std::move(target)});
  const bool tasks = std::any_of(comparison.arms.begin(), comparison.arms.end(),
                                 [](const ArmSummary& a) { return !a.tasks.empty(); });
  if (tasks) tables.push_back({"tasks", task_table(comparison)});
  if (!comparison.speeds.empty()) tables.push_back({"speed", speed_table(comparison)});
  if (!comparison.plan->spec.reported.empty()) tables.push_back({"reported", reported_table(comparison)});
  return tables;
}

}  // namespace satformer
