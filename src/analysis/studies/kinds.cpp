// Gates and loss by kind of token.
#include <nlohmann/json.hpp>

#include "analysis/charts.h"
#include "analysis/studies/list.h"
#include "base/error.h"
#include "report/heat_map.h"

namespace satformer {

void study_kinds(const StudyInput& input, StudyResult& result) {
  const Measurement& m = *input.measured;
  Table table;
  table.caption = "Kinds of token";
  table.columns = {{"kind", false, ""},
                   {"tokens", true, ""},
                   {"share", true, ""},
                   {"loss", true, ""},
                   {"95 % interval", false, ""}};
  if (!m.gates.empty()) {
    table.columns.push_back({"mean gate", true, ""});
    table.columns.push_back({"95 % interval of the gate", false, ""});
    table.columns.push_back({"zeros", true, ""});
  }
  BarChart gate_bars, loss_bars;
  gate_bars.title = "Mean gate by kind of token";
  gate_bars.subtitle = "over all layers and heads, with 95 % intervals over windows";
  loss_bars.title = "Loss at tokens of each kind";
  loss_bars.subtitle = "nats, of predicting the next token, with 95 % intervals over windows";
  at::Tensor gate_WT, zero_WT;  // over layers and heads
  for (const GateTrack& track : m.gates) {
    const at::Tensor mean = track.gates_WTH.to(at::kDouble).mean(2),
                     zero = track.gates_WTH.eq(0).to(at::kDouble).mean(2);
    gate_WT = gate_WT.defined() ? gate_WT + mean : mean;
    zero_WT = zero_WT.defined() ? zero_WT + zero : zero;
  }
  HeatMap map;
  map.title = "Mean gate by layer and kind";
  map.row_axis = "layer";
  map.column_axis = "kind";
  map.show_values = true;
  for (const GateTrack& track : m.gates) map.row_labels.push_back(track.name());
  std::vector<std::vector<double>> columns;
  std::string summary;
  for (std::size_t k = 0; k < m.kind_names.size(); ++k) {
    const at::Tensor where = m.kinds_WT.eq(static_cast<std::int64_t>(k));
    const std::string& name = m.kind_names[k];
    const Estimate loss = window_estimate(m.losses_WT, where, input.resamples, "loss of " + name);
    const double share = static_cast<double>(loss.tokens) / static_cast<double>(m.tokens());
    Json json = {{"kind", name}, {"tokens", loss.tokens}, {"share", share}, {"loss", estimate_json(loss)}};
    std::vector<Cell> row = {Cell(name), Cell(static_cast<double>(loss.tokens)), percent_cell(share),
                             Cell(loss.value), interval_cell(loss.interval)};
    if (loss.tokens > 0) loss_bars.bars.push_back(estimate_bar(name, loss));
    if (gate_WT.defined()) {
      const auto layers = static_cast<double>(m.gates.size());
      const Estimate gate = window_estimate(gate_WT / layers, where, input.resamples, "gate of " + name);
      const Estimate zeros = window_estimate(zero_WT / layers, where, 0, name);
      json["gate"] = estimate_json(gate);
      json["zero_share"] = zeros.value;
      row.insert(row.end(), {Cell(gate.value), interval_cell(gate.interval), percent_cell(zeros.value)});
      if (gate.tokens > 0) gate_bars.bars.push_back(estimate_bar(name, gate));
      std::vector<double> column;
      for (const GateTrack& track : m.gates) {
        const Estimate e = window_estimate(track.gates_WTH.to(at::kDouble).mean(2), where, 0, name);
        column.push_back(e.value);
        json["layers"].push_back({{"layer", track.layer}, {"source", track.source}, {"mean", e.value}});
      }
      columns.push_back(std::move(column));
      map.column_labels.push_back(name);
      summary += concat(summary.empty() ? "mean gate: " : ", ", name, " ", fixed(gate.value, 4));
    }
    table.rows.push_back(std::move(row));
    result.json["kinds"].push_back(std::move(json));
  }
  if (gate_WT.defined()) {
    for (std::size_t r = 0; r < m.gates.size(); ++r) {
      for (const std::vector<double>& column : columns) map.values.push_back(column[r]);
    }
    result.figure(bar_chart_svg(gate_bars));
    result.figure(heat_map_svg(map));
    result.summary.push_back(summary);
  }
  result.figure(bar_chart_svg(loss_bars));
  result.table("kinds.csv", table);
}

}  // namespace satformer
