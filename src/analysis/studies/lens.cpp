// What each layer predicts already, with early values and without.
#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>

#include "analysis/charts.h"
#include "analysis/stream_probes.h"
#include "analysis/studies/list.h"
#include "base/error.h"
#include "probe/gate_editor.h"
#include "probe/observer_chain.h"
#include "probe/weight_edits.h"

namespace satformer {
namespace {

constexpr std::int64_t most_windows = 16;

std::vector<LogitLens::Layer> lens_of(const StudyInput& input, const Intervention& intervention, const char* what) {
  const WeightEdits weights(*input.model, intervention);
  GateEditor editor(intervention);
  LogitLens lens(*input.model);
  ObserverChain chain({&editor, &lens});
  PassOptions options = input.pass(what);
  options.observer = &chain;
  options.before = [&](std::int64_t first, const at::Tensor&, const at::Tensor& targets_BT) {
    editor.begin({}, first);
    lens.begin(targets_BT);
  };
  const at::Tensor& tokens = input.measured->tokens_WT1;
  row_losses(*input.model, tokens.narrow(0, 0, std::min(most_windows, tokens.size(0))), options);
  return lens.layers();
}

}  // namespace

void study_lens(const StudyInput& input, StudyResult& result) {
  const auto with = lens_of(input, {}, "logit lens");
  std::vector<LogitLens::Layer> without;
  const EditSpace space = edit_space(*input.model, {});
  if (!space.gate_layers.empty() || !space.lambda_layers.empty()) {
    const std::string spec = space.gate_layers.empty() ? "lambda1-zero" : "zero";
    without = lens_of(input, parse_intervention(spec, space), "logit lens without early values");
  }
  Table table;
  table.caption = "Logit lens: the final norm and head on each layer's output";
  table.columns = {{"layer", true, ""}, {"loss", true, ""}, {"accuracy", true, ""}};
  if (!without.empty()) {
    table.columns.push_back({"loss without early values", true, ""});
    table.columns.push_back({"accuracy without", true, ""});
  }
  table.notes = {concat("Over the first ", std::min(most_windows, input.measured->windows()), " windows.")};
  Line on = named_line(without.empty() ? "loss" : "with early values"), off = named_line("without", {}, {}, true);
  for (std::size_t l = 0; l < with.size(); ++l) {
    const auto x = static_cast<double>(l);
    on.xs.push_back(x);
    on.ys.push_back(with[l].loss);
    Json json = {{"layer", l}, {"loss", with[l].loss}, {"accuracy", with[l].accuracy}};
    std::vector<Cell> row = {Cell(x), Cell(with[l].loss), percent_cell(with[l].accuracy)};
    if (!without.empty()) {
      off.xs.push_back(x);
      off.ys.push_back(without[l].loss);
      json["loss_without"] = without[l].loss;
      json["accuracy_without"] = without[l].accuracy;
      row.insert(row.end(), {Cell(without[l].loss), percent_cell(without[l].accuracy)});
    }
    result.json["layers"].push_back(std::move(json));
    table.rows.push_back(std::move(row));
  }
  LineChart chart;
  chart.title = "Logit lens";
  chart.x_label = "after layer";
  chart.y_label = "loss (nats)";
  chart.lines = {on};
  if (!without.empty()) chart.lines.push_back(off);
  const bool mudd = !space.mudd_layers.empty();
  result.figure(
      line_chart_svg(chart),
      mudd ? "The model's own last state is a mix of all layers' outputs; the lens reads the last layer's alone."
           : "");
  result.table("lens.csv", table);
}

}  // namespace satformer
