// How well each layer's output still tells the input token.
#include <algorithm>
#include <nlohmann/json.hpp>

#include "analysis/charts.h"
#include "analysis/stream_probes.h"
#include "analysis/studies/list.h"
#include "base/error.h"

namespace satformer {

void study_identity(const StudyInput& input, StudyResult& result) {
  constexpr std::int64_t most_windows = 32;
  const at::Tensor& tokens = input.measured->tokens_WT1;
  const std::int64_t windows = std::min(most_windows, tokens.size(0)), half = windows / 2;
  if (half == 0) {
    result.paragraph(
        "The probe is fitted on one half of the windows and tested on the other: it needs at least two.");
    result.json["windows"] = windows;
    return;
  }
  IdentityProbe probe(*input.model);
  PassOptions options = input.pass("token identity");
  options.observer = &probe;
  options.before = [&](std::int64_t, const at::Tensor& ids_BT, const at::Tensor&) { probe.begin(ids_BT); };
  row_losses(*input.model, tokens.narrow(0, 0, half), options);
  probe.end_fit();
  row_losses(*input.model, tokens.narrow(0, half, windows - half), options);

  Table table;
  table.caption = "How well each layer's output tells the input token";
  table.columns = {{"layer", true, ""}, {"tokens found", true, ""}, {"variance explained", true, ""}};
  table.notes = {
      concat("Ridge regression to the embedding, fitted on ", half, " windows, tested on ", windows - half, ".")};
  Line found = named_line("tokens found"), explained = named_line("variance explained", {}, {}, true);
  const auto layers = probe.layers();
  for (std::size_t l = 0; l < layers.size(); ++l) {
    const auto x = static_cast<double>(l);
    found.xs.push_back(x);
    explained.xs.push_back(x);
    found.ys.push_back(layers[l].accuracy);
    explained.ys.push_back(layers[l].explained);
    table.rows.push_back({Cell(x), percent_cell(layers[l].accuracy), percent_cell(layers[l].explained)});
    result.json["layers"].push_back(
        {{"layer", l}, {"accuracy", layers[l].accuracy}, {"explained", layers[l].explained}});
  }
  LineChart chart;
  chart.title = "Token identity over depth";
  chart.x_label = "after layer";
  chart.y_label = "share";
  chart.lines = {found, explained};
  result.figure(line_chart_svg(chart));
  result.table("identity.csv", table);
  result.summary.push_back(concat("tokens found in layer 0's output ", fixed(100 * layers.front().accuracy, 1),
                                  " %, in the last layer's ", fixed(100 * layers.back().accuracy, 1), " %"));
}

}  // namespace satformer
