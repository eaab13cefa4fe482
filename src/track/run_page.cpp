#include "track/run_page.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "base/error.h"
#include "base/progress.h"
#include "report/line_chart.h"
#include "report/page.h"

namespace satformer {
namespace {

// Charts in this order; other metrics follow by name.
struct ChartSpec {
  const char* title;
  std::vector<std::string> metrics;
  bool log_y = false;
};
const std::vector<ChartSpec>& chart_specs() {
  static const std::vector<ChartSpec> list = {
      {"Loss", {"train/loss", "val/loss"}},
      {"Accuracy", {"val/accuracy"}},
      {"Gradient norm", {"train/grad_norm"}, true},
      {"Learning rate", {"train/lr"}},
      {"Tokens per second", {"perf/tokens_per_sec"}},
      {"Seconds of a step",
       {"perf/step_seconds/data", "perf/step_seconds/forward", "perf/step_seconds/backward",
        "perf/step_seconds/optimizer", "perf/step_seconds/communication"}}};
  return list;
}

bool is_shown(const std::string& metric) {
  return !metric.starts_with("progress/") && metric != "val/windows" && metric != "val/perplexity";
}

// Metrics of the runs that no chart above has.
std::vector<std::string> other_metrics(const std::vector<RunInfo>& runs) {
  std::set<std::string> names;
  for (const RunInfo& run : runs) {
    for (const auto& [key, curve] : run.curves.all()) {
      if (is_shown(key)) names.insert(key);
    }
  }
  for (const ChartSpec& spec : chart_specs()) {
    for (const std::string& metric : spec.metrics) names.erase(metric);
  }
  return {names.begin(), names.end()};
}

Line line_of(const Curve& curve, std::string label, std::string group, bool dashed) {
  Line line;
  line.label = std::move(label);
  line.group = std::move(group);
  line.xs = curve.steps;
  line.ys = curve.values;
  line.dashed = dashed;
  return line;
}

std::string chart_of(const std::vector<RunInfo>& runs, const std::vector<std::string>& names, const ChartSpec& spec) {
  LineChart chart;
  chart.title = spec.title;
  chart.x_label = "step";
  chart.log_y = spec.log_y;
  for (std::size_t r = 0; r < runs.size(); ++r) {
    for (std::size_t m = 0; m < spec.metrics.size(); ++m) {
      const Curve* curve = runs[r].curves.find(spec.metrics[m]);
      if (!curve) continue;
      const std::string label = runs.size() == 1           ? spec.metrics[m]
                                : spec.metrics.size() == 1 ? names[r]
                                                           : concat(names[r], ", ", spec.metrics[m]);
      const std::string group = runs.size() == 1 ? spec.metrics[m] : names[r];
      chart.lines.push_back(line_of(*curve, label, group, runs.size() > 1 && m == 0 && spec.metrics.size() > 1));
    }
  }
  return chart.lines.empty() ? std::string() : line_chart_svg(chart);
}

void add_charts(Page& page, const std::vector<RunInfo>& runs, const std::vector<std::string>& names) {
  const auto add = [&](const ChartSpec& spec) {
    if (const std::string svg = chart_of(runs, names, spec); !svg.empty()) page.figure(svg);
  };
  page.heading("Curves");
  for (const ChartSpec& spec : chart_specs()) add(spec);
  const std::vector<std::string> others = other_metrics(runs);
  if (!others.empty()) page.heading("Other metrics");
  for (const std::string& metric : others) add({metric.c_str(), {metric}});
}

std::string progress_text(const RunInfo& run) {
  return concat(
      run.step, " of ", run.total_steps, " steps",
      run.total_steps > 0
          ? concat(" (", std::lround(100.0 * static_cast<double>(run.step) / static_cast<double>(run.total_steps)),
                   " %)")
          : "");
}

std::vector<std::string> parts_of(const std::string& path) {
  std::vector<std::string> parts;
  for (const std::filesystem::path& part : std::filesystem::path(path).lexically_normal()) {
    if (!part.empty()) parts.push_back(part.string());
  }
  return parts;
}

// Paths without the parts that all begin or end with; at least one part is left.
std::vector<std::string> short_names(const std::vector<RunInfo>& runs) {
  std::vector<std::vector<std::string>> paths;
  for (const RunInfo& run : runs) paths.push_back(parts_of(run.path));
  const auto all_equal = [&](const auto& part_of) {
    return std::all_of(paths.begin(), paths.end(), [&](const std::vector<std::string>& path) {
      return path.size() > 1 && part_of(path) == part_of(paths.front());
    });
  };
  while (runs.size() > 1 && all_equal([](const auto& path) { return path.front(); })) {
    for (auto& path : paths) path.erase(path.begin());
  }
  while (runs.size() > 1 && all_equal([](const auto& path) { return path.back(); })) {
    for (auto& path : paths) path.pop_back();
  }
  std::vector<std::string> names;
  for (const auto& path : paths) {
    std::string name;
    for (const std::string& part : path) name += (name.empty() || name == "/" ? "" : "/") + part;
    names.push_back(name);
  }
  return names;
}

std::map<std::string, std::string> settings_of(const Json& config) {
  std::map<std::string, std::string> settings;
  visit_leaves(config, [&](const std::string& key, const Json& value) {
    settings[key] = value.is_string() ? value.get<std::string>() : value.dump();
  });
  return settings;
}

double best_validation(const RunInfo& run) {
  const Curve* curve = run.curves.find("val/loss");
  return curve ? *std::min_element(curve->values.begin(), curve->values.end()) : NAN;
}

// Nothing where no speed was logged.
Cell speed_cell(double tokens_per_second) {
  if (!std::isfinite(tokens_per_second)) return {};
  return {human_count(tokens_per_second), tokens_per_second};
}

}  // namespace

std::string run_page(const RunInfo& run, int refresh) {
  Page page(run.architecture.empty() ? run.path : run.architecture, run.path);
  page.refresh(refresh);
  std::vector<std::pair<std::string, std::string>> facts = {
      {"state", run_state_name(run.state)},
      {"progress", progress_text(run)},
      {"seed", std::to_string(run.seed)},
      {"loss", number_text(run.curves.last("train/loss"))},
      {"validation loss", number_text(run.curves.last("val/loss"))},
      {"tokens a second", human_count(std::max(0.0, run.curves.last("perf/tokens_per_sec")))}};
  if (!run.sessions.empty()) {
    const Json& session = run.sessions.back();
    facts.emplace_back(run.sessions.size() > 1 ? "resumed" : "started", session.value("started", std::string()));
    facts.emplace_back("host", session.value("host", std::string()));
    const Json git = session.value("git", Json());
    if (git.is_object()) {
      facts.emplace_back("git", git.value("commit", std::string()).substr(0, 12) +
                                    (git.value("changed", false) ? " with changes" : ""));
    }
  }
  page.facts(facts);
  add_charts(page, {run}, {run.path});
  page.heading("Configuration");
  const std::map<std::string, std::string> settings = settings_of(run.config);
  Table table;
  table.columns = {{"key"}, {"value"}};
  for (const auto& [key, value] : settings) table.rows.push_back({key, value});
  page.table(table);
  return page.html();
}

Table runs_table(const std::vector<RunInfo>& runs) {
  Table table;
  table.columns = {{"run"},        {"architecture"},   {"seed", true}, {"state"},         {"steps", true},
                   {"loss", true}, {"val/loss", true}, {"best", true}, {"tokens/s", true}};
  for (const RunInfo& run : runs) {
    table.rows.push_back({run.path,
                          run.architecture,
                          static_cast<double>(run.seed),
                          run_state_name(run.state),
                          {concat(run.step, "/", run.total_steps), static_cast<double>(run.step)},
                          run.curves.last("train/loss"),
                          run.curves.last("val/loss"),
                          best_validation(run),
                          speed_cell(run.curves.last("perf/tokens_per_sec"))});
  }
  return table;
}

Table differences_table(const std::vector<RunInfo>& runs) {
  const std::vector<std::string> names = short_names(runs);
  Table table;
  table.columns.push_back({"setting or metric"});
  for (const std::string& name : names) table.columns.push_back({name, true});
  std::vector<std::map<std::string, std::string>> settings(runs.size());
  std::set<std::string> keys, metrics;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    settings[i] = settings_of(runs[i].config);
    for (const auto& [key, value] : settings[i]) keys.insert(key);
    for (const auto& [key, curve] : runs[i].curves.all()) {
      if (is_shown(key) || key == "val/perplexity") metrics.insert(key);
    }
  }
  for (const std::string& key : keys) {
    std::set<std::string> values;
    std::vector<Cell> row = {key};
    for (const auto& own : settings) {
      const auto it = own.find(key);
      values.insert(it == own.end() ? "–" : it->second);
      row.emplace_back(it == own.end() ? "–" : it->second);
    }
    if (values.size() > 1) table.rows.push_back(std::move(row));
  }
  for (const std::string& metric : metrics) {
    std::vector<Cell> row = {metric};
    for (const RunInfo& run : runs) row.emplace_back(run.curves.last(metric));
    table.rows.push_back(std::move(row));
  }
  std::vector<Cell> row = {"step"};
  for (const RunInfo& run : runs) row.emplace_back(std::to_string(run.step), static_cast<double>(run.step));
  table.rows.push_back(std::move(row));
  return table;
}

std::string compare_page(const std::vector<RunInfo>& runs) {
  Page page(concat(runs.size(), " runs"), "Settings in which they differ, last values, curves.");
  page.heading("Differences");
  page.table(differences_table(runs));
  add_charts(page, runs, short_names(runs));
  return page.html();
}

}  // namespace satformer
