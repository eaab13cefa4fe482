// Gates and loss over the position in the window.
#include <algorithm>
#include <nlohmann/json.hpp>

#include "analysis/charts.h"
#include "analysis/studies/list.h"
#include "base/error.h"

namespace satformer {
namespace {

constexpr std::int64_t most_buckets = 64;

}  // namespace

void study_positions(const StudyInput& input, StudyResult& result) {
  const Measurement& m = *input.measured;
  const std::int64_t T = m.length(), buckets = std::min(T, most_buckets);
  const at::Tensor loss_T = m.losses_WT.to(at::kDouble).mean(0);
  std::vector<at::Tensor> gates_T;
  for (const GateTrack& track : m.gates)
    gates_T.push_back(track.gates_WTH.to(at::kDouble).mean(at::IntArrayRef({0, 2})));

  Table table;
  table.columns = {{"from", true, ""}, {"to", true, ""}, {"loss", true, ""}};
  for (const GateTrack& track : m.gates) table.columns.push_back({"gate, " + track.name(), true, ""});
  std::vector<double> xs;
  Line loss = named_line("loss");
  std::vector<std::vector<double>> gates(m.gates.size());
  for (std::int64_t b = 0; b < buckets; ++b) {
    const std::int64_t begin = b * T / buckets, end = (b + 1) * T / buckets;
    xs.push_back(0.5 * static_cast<double>(begin + end - 1));
    const auto mean = [&](const at::Tensor& values_T) {
      return values_T.narrow(0, begin, end - begin).mean().item<double>();
    };
    loss.ys.push_back(mean(loss_T));
    std::vector<Cell> row = {Cell(static_cast<double>(begin)), Cell(static_cast<double>(end - 1)),
                             Cell(loss.ys.back())};
    Json entry = {{"from", begin}, {"to", end - 1}, {"loss", loss.ys.back()}};
    for (std::size_t g = 0; g < m.gates.size(); ++g) {
      gates[g].push_back(mean(gates_T[g]));
      row.emplace_back(gates[g].back());
      entry["gates"].push_back(gates[g].back());
    }
    table.rows.push_back(std::move(row));
    result.json["positions"].push_back(std::move(entry));
  }
  loss.xs = xs;
  const std::string caption =
      input.document_end ? "Positions are counted from the window's beginning, not the document's." : "";
  if (!m.gates.empty()) {
    for (const GateTrack& track : m.gates) result.json["tracks"].push_back(track.name());
    LineChart chart;
    chart.title = "Mean gate over the position";
    chart.x_label = "position in the window";
    chart.y_label = "mean gate";
    for (const std::size_t g : spread(m.gates.size(), 6)) {
      chart.lines.push_back(named_line(m.gates[g].name(), xs, gates[g]));
    }
    result.figure(line_chart_svg(chart), caption);
  }
  LineChart chart;
  chart.title = "Loss over the position";
  chart.x_label = "position in the window";
  chart.y_label = "loss (nats)";
  chart.lines = {loss};
  result.figure(line_chart_svg(chart), m.gates.empty() ? caption : "");
  result.table("positions.csv", table, false);
}

}  // namespace satformer
