// Dead and saturated gates over training, from logged statistics.
#include <algorithm>
#include <nlohmann/json.hpp>

#include "analysis/charts.h"
#include "analysis/gate_history.h"
#include "analysis/studies/list.h"
#include "base/error.h"
#include "io/file.h"

namespace satformer {
namespace {

using FigureList = std::vector<double> GateHistory::Layer::*;
struct Figure {
  const char* name;
  FigureList list;
};
constexpr Figure figures[] = {{"mean", &GateHistory::Layer::mean},
                              {"zero_share", &GateHistory::Layer::zero_share},
                              {"saturated_share", &GateHistory::Layer::saturated_share},
                              {"dead_heads", &GateHistory::Layer::dead_heads}};

void add_line(const Json& line, const std::string& path, GateHistory& history) {
  std::vector<std::string> found;
  for (const auto& [key, value] : line.items()) {
    if (!key.starts_with("gates/") || !key.ends_with("/mean")) continue;
    found.push_back(key.substr(6, key.size() - 6 - 5));
  }
  if (found.empty()) return;
  const std::int64_t step = line.value("progress/step", std::int64_t{-1});
  if (history.order.empty()) history.order = found;
  for (const std::string& name : history.order) {
    for (const Figure& figure : figures) {
      const auto value = line.find(concat("gates/", name, "/", figure.name));
      if (value == line.end() || !value->is_number()) {
        fail(ExitCode::data, path, ": step ", step, " has no number gates/", name, "/", figure.name);
      }
      (history.layers[name].*figure.list).push_back(value->get<double>());
    }
  }
  history.steps.push_back(step);
}

}  // namespace

GateHistory read_gate_history(const std::string& path) {
  const std::string text = read_file(path);
  GateHistory history;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    const Json line = Json::parse(text.substr(begin, end - begin), nullptr, false);
    begin = end + 1;
    if (line.is_object()) add_line(line, path, history);
  }
  if (history.steps.empty()) {
    fail(ExitCode::data, path, " holds no gate statistics: train with --log-gates N to have them");
  }
  return history;
}

void study_training(const StudyInput& input, StudyResult& result) {
  GateHistory history = read_gate_history(input.metrics_path);
  const std::vector<double> steps(history.steps.begin(), history.steps.end());
  Table table;
  table.columns = {{"step", true, ""}, {"layer", false, ""}};
  for (const Figure& figure : figures) table.columns.push_back({figure.name, true, ""});
  for (std::size_t s = 0; s < steps.size(); ++s) {
    for (const std::string& name : history.order) {
      std::vector<Cell> row = {Cell(steps[s]), Cell(name)};
      for (const Figure& figure : figures) row.emplace_back((history.layers[name].*figure.list)[s]);
      table.rows.push_back(std::move(row));
    }
  }
  const char* titles[] = {"Mean gate over training", "Share of exact zeros over training",
                          "Share of saturated gates over training", "Heads whose gates are all zero, over training"};
  const std::vector<std::size_t> drawn = spread(history.order.size(), 6);
  result.json["steps"] = history.steps;
  for (std::size_t i = 0; i < std::size(figures); ++i) {
    const Figure& figure = figures[i];
    LineChart chart;
    chart.title = titles[i];
    chart.x_label = "step";
    for (const std::size_t l : drawn) {
      std::string label = history.order[l];
      std::replace(label.begin(), label.end(), '_', ' ');
      chart.lines.push_back(named_line(label, steps, history.layers[history.order[l]].*figure.list));
    }
    for (const std::string& name : history.order)
      result.json["layers"][name][figure.name] = history.layers[name].*figure.list;
    result.figure(line_chart_svg(chart));
  }
  double dead = 0;
  for (auto& [name, layer] : history.layers) dead += layer.dead_heads.back();
  result.table("training.csv", table, false);
  result.summary.push_back(concat("at step ", history.steps.back(), ": ", dead, " dead heads"));
}

}  // namespace satformer
