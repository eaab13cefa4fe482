#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include "base/error.h"
#include "compare/report.h"
#include "report/bar_chart.h"
#include "report/line_chart.h"
#include "report/scatter.h"

namespace satformer {
namespace {

enum class Against { tokens, seconds, flops };

// Mean over seeds at the steps that all runs have, within the range of the runs.
Line mean_line(const Comparison& c, const CompareGroup& group, const CompareArm& arm, const std::string& metric,
               Against against) {
  Line line;
  line.label = arm.name;
  const ArmCost& cost = c.plan->cost(group, arm.name);
  line.group = arm.name;
  struct Point {
    double seconds = 0, sum = 0, low = 0, high = 0;
    std::size_t n = 0;
  };
  std::map<double, Point> points;
  const auto runs = c.trained(group, arm.name);
  for (const auto& [seed, run] : runs) {
    const auto it = run->curves.find(metric);
    if (it == run->curves.end()) continue;
    for (std::size_t i = 0; i < it->second.values.size(); ++i) {
      const double v = it->second.values[i];
      Point& p = points[it->second.steps[i]];
      p.low = p.n == 0 ? v : std::min(p.low, v);
      p.high = p.n == 0 ? v : std::max(p.high, v);
      p.sum += v;
      p.seconds += it->second.seconds[i];
      ++p.n;
    }
  }
  // Runs that end at a target leave later steps to the others: the mean goes on over those that are left only while
  // all are there.
  for (const auto& [step, p] : points) {
    if (p.n < runs.size()) continue;
    const auto n = static_cast<double>(p.n);
    const double tokens = step * static_cast<double>(cost.tokens_per_step);
    line.xs.push_back(against == Against::tokens    ? tokens
                      : against == Against::seconds ? p.seconds / n
                                                    : tokens * cost.flops_per_token);
    line.ys.push_back(p.sum / n);
    line.low.push_back(p.low);
    line.high.push_back(p.high);
  }
  if (runs.size() < 2) {
    line.low.clear();
    line.high.clear();
  }
  return line;
}

std::string file_name(std::string text) {
  for (char& ch : text) {
    if (!std::isalnum(static_cast<unsigned char>(ch)) && ch != '-' && ch != '.') ch = '_';
  }
  return text;
}

// Seeds of the arm that has most.
std::size_t trained_seeds(const Comparison& c, const CompareGroup& group) {
  std::size_t most = 0;
  for (const CompareArm& arm : c.plan->spec.arms) most = std::max(most, c.trained(group, arm.name).size());
  return most;
}

void add_curves(const Comparison& c, const CompareGroup& group, std::vector<NamedFigure>& figures) {
  const CompareSpec& spec = c.plan->spec;
  struct Axis {
    Against against;
    const char *name, *label;
  };
  const std::size_t seeds = trained_seeds(c, group);
  for (const std::string& metric : spec.curves) {
    for (const Axis& axis : {Axis{Against::tokens, "tokens", "training tokens"},
                             Axis{Against::seconds, "seconds", "seconds of training"},
                             Axis{Against::flops, "flops", "training FLOPs"}}) {
      LineChart chart;
      const std::string title = group_title(group);
      chart.title = concat(metric, " against ", axis.label);
      chart.subtitle = concat(title, title.empty() ? "" : "; ", "mean of ", seeds,
                              seeds > 1 ? " seeds, band: lowest to highest" : " seed");
      chart.x_label = axis.label;
      chart.y_label = metric;
      for (const CompareArm& arm : spec.arms) {
        Line line = mean_line(c, group, arm, metric, axis.against);
        if (!line.xs.empty()) chart.lines.push_back(std::move(line));
      }
      if (chart.lines.empty()) continue;
      if (spec.target.value && metric == spec.target.metric)
        chart.references.push_back({*spec.target.value, "target"});
      figures.push_back({file_name(concat(title.empty() ? "" : title + "-", metric, "-", axis.name)),
                         line_chart_svg(chart), "", title});
    }
  }
}

void add_steps(const Comparison& c, const CompareGroup& group, std::vector<NamedFigure>& figures) {
  const CompareSpec& spec = c.plan->spec;
  if (!spec.target.value) return;
  BarChart chart;
  const std::string title = group_title(group);
  chart.title =
      concat("Steps to ", spec.target.metric, spec.target.higher_is_better ? " ≥ " : " ≤ ", *spec.target.value);
  chart.subtitle = concat(title, title.empty() ? "" : "; ", "medians of ", trained_seeds(c, group),
                          " seeds, 95 % bootstrap intervals");
  for (const CompareArm& arm : spec.arms) {
    const ArmSummary& a = c.arm(group, arm.name);
    if (!a.target || a.target->runs == 0) continue;
    const ToTarget& t = *a.target;
    Bar bar;
    bar.label = arm.name;
    bar.colour = arm.name;
    const bool reached = std::isfinite(t.steps.mean);
    bar.value = reached ? t.steps.mean : t.longest;
    bar.faint = !reached;
    bar.low = bar.high = bar.value;
    if (reached && std::isfinite(t.steps.low)) {
      bar.low = t.steps.low;
      bar.high = std::isfinite(t.steps.high) ? t.steps.high : t.longest;
    }
    bar.text = concat(reached ? "" : "> ", std::llround(bar.value), "  (", t.reached, " of ", t.runs, ")");
    chart.bars.push_back(std::move(bar));
  }
  if (!chart.bars.empty()) {
    figures.push_back({file_name(concat(title.empty() ? "" : title + "-", "steps-to-target")), bar_chart_svg(chart),
                       "Faint: the target was not reached in so many steps.", title});
  }
}

void add_differences(const Comparison& c, const CompareGroup& group, std::vector<NamedFigure>& figures) {
  const CompareSpec& spec = c.plan->spec;
  if (spec.target.value || spec.arms.size() < 2) return;
  BarChart chart;
  const std::string title = group_title(group);
  chart.title = concat("Difference of ", spec.target.metric, " at the end");
  chart.subtitle =
      concat(title, title.empty() ? "" : "; ", "against ", spec.baseline, ", paired by seed, 95 % intervals");
  for (const CompareArm& arm : spec.arms) {
    const ArmSummary& a = c.arm(group, arm.name);
    if (a.difference.n == 0) continue;
    Bar bar{arm.name, a.difference.mean, a.difference.low, a.difference.high, ""};
    if (!std::isfinite(a.difference.low)) bar.low = bar.high = bar.value;
    bar.colour = arm.name;
    chart.bars.push_back(std::move(bar));
  }
  if (!chart.bars.empty()) {
    figures.push_back(
        {file_name(concat(title.empty() ? "" : title + "-", "differences")), bar_chart_svg(chart), "", title});
  }
}

// Quality against size, one line an arm, for each data set with several sizes.
void add_sizes(const Comparison& c, std::vector<NamedFigure>& figures) {
  const CompareSpec& spec = c.plan->spec;
  if (spec.sizes.size() < 2) return;
  for (const CompareData& data : spec.data) {
    LineChart chart;
    chart.title = concat(spec.target.metric, " against parameters");
    chart.subtitle = spec.data.size() > 1 ? data.name : "";
    chart.x_label = "parameters";
    chart.y_label = spec.target.metric;
    chart.log_x = true;
    for (const CompareArm& arm : spec.arms) {
      Line line;
      line.label = line.group = arm.name;
      for (const CompareAxis& size : spec.sizes) {
        const CompareGroup group{data.name, size.name};
        const ArmSummary& a = c.arm(group, arm.name);
        if (a.final.n == 0) continue;
        line.xs.push_back(static_cast<double>(c.plan->cost(group, arm.name).parameters));
        line.ys.push_back(a.final.mean);
        line.low.push_back(std::isfinite(a.final.low) ? a.final.low : a.final.mean);
        line.high.push_back(std::isfinite(a.final.high) ? a.final.high : a.final.mean);
      }
      if (!line.xs.empty()) chart.lines.push_back(std::move(line));
    }
    if (!chart.lines.empty()) {
      figures.push_back({file_name(concat(data.name, "-sizes")), line_chart_svg(chart), "", ""});
    }
  }
}

void add_speed(const Comparison& c, std::vector<NamedFigure>& figures) {
  for (const std::string& phase : c.plan->spec.measurement.phases) {
    BarChart chart;
    chart.title = concat("Tokens per second, ", phase);
    chart.subtitle = concat("relative to what the arm is compared with; medians and 95 % intervals of paired rounds");
    chart.reference = 1;
    for (const SpeedResult& s : c.speeds) {
      if (s.phase != phase) continue;
      Bar bar{s.arm, s.ratio, s.low, s.high, ""};
      bar.colour = s.arm;
      chart.bars.push_back(std::move(bar));
    }
    if (!chart.bars.empty()) figures.push_back({concat("speed-", phase), bar_chart_svg(chart), "", ""});
  }
}

// Quality against throughput and memory.
void add_pareto(const Comparison& c, std::vector<NamedFigure>& figures) {
  const CompareSpec& spec = c.plan->spec;
  if (c.speeds.empty() || c.plan->groups.size() != 1) return;
  for (const bool memory : {false, true}) {
    Scatter scatter;
    scatter.title = concat(spec.target.metric, memory ? " against peak memory" : " against training speed");
    scatter.x_label = memory ? "peak memory, baseline = 1" : "tokens per second, baseline = 1";
    scatter.y_label = spec.target.metric;
    scatter.front = true;
    scatter.better_x = memory ? Better::lower : Better::higher;
    scatter.better_y = spec.target.higher_is_better ? Better::higher : Better::lower;
    for (const ArmSummary& a : c.arms) {
      ScatterPoint point{a.arm, std::numeric_limits<double>::quiet_NaN(), a.final.mean, {}, {}, {}, {}, a.arm};
      if (a.arm == spec.baseline) point.x = 1;
      for (const SpeedResult& s : c.speeds) {
        if (s.arm != a.arm || s.phase != "train" || s.against != spec.baseline) continue;
        point.x = memory ? s.peak_bytes / s.against_peak_bytes : s.ratio;
        if (!memory) {
          point.x_low = s.low;
          point.x_high = s.high;
        }
      }
      if (std::isfinite(a.final.low)) {
        point.y_low = a.final.low;
        point.y_high = a.final.high;
      }
      if (std::isfinite(point.x) && std::isfinite(point.y)) scatter.points.push_back(std::move(point));
    }
    if (scatter.points.size() > 1) {
      figures.push_back({memory ? "pareto-memory" : "pareto-speed", scatter_svg(scatter), "", ""});
    }
  }
}

}  // namespace

std::vector<NamedFigure> comparison_figures(const Comparison& comparison) {
  std::vector<NamedFigure> figures;
  for (const CompareGroup& group : comparison.plan->groups) {
    add_steps(comparison, group, figures);
    add_differences(comparison, group, figures);
    add_curves(comparison, group, figures);
  }
  add_sizes(comparison, figures);
  add_speed(comparison, figures);
  add_pareto(comparison, figures);
  return figures;
}

}  // namespace satformer
