// Gates of each layer and head: mean, zeros (and before training), distribution, concentration, saturation.
#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>

#include "analysis/charts.h"
#include "analysis/figures.h"
#include "analysis/studies/list.h"
#include "base/error.h"
#include "models/registry.h"
#include "probe/gate_statistics.h"
#include "report/histogram.h"

namespace satformer {
namespace {

constexpr std::int64_t initial_windows = 8;  // for the re-initialised model
constexpr std::size_t histogram_bins = 40;

struct Figures {
  double mean = 0, std_dev = 0, max = 0, zeros = 0, saturated = 0;
  Concentration spread;
};

Figures figures_of(const std::vector<float>& gates, double saturation) {
  Figures f;
  const auto n = static_cast<double>(gates.size());
  f.mean = mean_of(gates);
  f.max = gates.front();
  double squares = 0;
  std::int64_t zeros = 0, saturated = 0;
  for (const float g : gates) {
    squares += (g - f.mean) * (g - f.mean);
    f.max = std::max(f.max, static_cast<double>(g));
    zeros += g == 0.0f;
    saturated += std::fabs(g) >= saturation;
  }
  f.zeros = static_cast<double>(zeros) / n;
  f.saturated = static_cast<double>(saturated) / n;
  f.std_dev = std::sqrt(squares / n);
  f.spread = concentration(gates);
  return f;
}

Json to_json(const Figures& f, double initial_zeros) {
  return {{"mean", f.mean},
          {"std", f.std_dev},
          {"max", f.max},
          {"zero_share", f.zeros},
          {"zero_share_initial", initial_zeros},
          {"saturated_share", f.saturated},
          {"entropy", f.spread.entropy},
          {"gini", f.spread.gini},
          {"top1_share", f.spread.top1},
          {"top10_share", f.spread.top10}};
}

std::vector<Column> figure_columns(bool pool, bool heads) {
  std::vector<Column> columns = {{"layer", true, ""}};
  if (pool) columns.push_back({"source", true, ""});
  if (heads) columns.push_back({"head", true, ""});
  for (const char* name :
       {"mean", "std", "max", "zeros", "zeros at init", "saturated", "entropy", "Gini", "top 1 %", "top 10 %"}) {
    columns.push_back({name, true, ""});
  }
  return columns;
}

std::vector<Cell> figure_row(const GateTrack& track, std::optional<std::int64_t> head, const Figures& f,
                             double initial) {
  std::vector<Cell> row = {Cell(static_cast<double>(track.layer))};
  if (track.pool) row.emplace_back(static_cast<double>(track.source));
  if (head) row.emplace_back(static_cast<double>(*head));
  row.insert(row.end(), {Cell(f.mean), Cell(f.std_dev), Cell(f.max), percent_cell(f.zeros), percent_cell(initial),
                         percent_cell(f.saturated), Cell(f.spread.entropy), Cell(f.spread.gini),
                         percent_cell(f.spread.top1), percent_cell(f.spread.top10)});
  return row;
}

// The model as its seed makes it, on the first windows.
GateStatistics initial_statistics(const StudyInput& input) {
  const Model& model = *input.model;
  const auto fresh =
      make_model(architecture_by_name(model.architecture()), model.config(), model.parameters().device());
  fresh->parameters().initialise(input.seed);
  fresh->set_compute_dtype(model.compute_dtype());
  GateStatistics statistics;
  PassOptions options = input.pass("gates before training");
  options.observer = &statistics;
  const at::Tensor& tokens = input.measured->tokens_WT1;
  row_losses(*fresh, tokens.narrow(0, 0, std::min(initial_windows, tokens.size(0))), options);
  return statistics;
}

void add_histogram(const Measurement& m, StudyResult& result) {
  double low = std::numeric_limits<double>::infinity(), high = -low;
  for (const GateTrack& track : m.gates) {
    low = std::min(low, track.gates_WTH.min().item<double>());
    high = std::max(high, track.gates_WTH.max().item<double>());
  }
  low = std::min(low, 0.0);
  if (!(high > low)) high = low + 1;
  Histogram chart;
  chart.title = "Distribution of the gates that are not zero";
  chart.x_label = "gate";
  chart.y_label = "share of all gates";
  chart.log_y = true;
  for (std::size_t i = 0; i <= histogram_bins; ++i) {
    chart.edges.push_back(low + (high - low) * static_cast<double>(i) / histogram_bins);
  }
  Json json;
  json["edges"] = chart.edges;
  Table table;
  table.columns = {
      {"layer", true, ""}, {"source", true, ""}, {"from", true, ""}, {"to", true, ""}, {"share", true, ""}};
  const std::vector<std::size_t> drawn = spread(m.gates.size(), 4);
  for (std::size_t g = 0; g < m.gates.size(); ++g) {
    const GateTrack& track = m.gates[g];
    const at::Tensor all = track.gates_WTH.flatten().to(at::kDouble);
    const at::Tensor kept = all.masked_select(all.ne(0)).contiguous();
    std::vector<double> shares =
        bin_shares({kept.const_data_ptr<double>(), static_cast<std::size_t>(kept.numel())}, chart.edges);
    for (double& share : shares) share *= static_cast<double>(kept.numel()) / static_cast<double>(all.numel());
    for (std::size_t b = 0; b < shares.size(); ++b) {
      table.rows.push_back({Cell(static_cast<double>(track.layer)), Cell(static_cast<double>(track.source)),
                            Cell(chart.edges[b]), Cell(chart.edges[b + 1]), Cell(shares[b])});
    }
    json["layers"].push_back({{"layer", track.layer}, {"source", track.source}, {"shares", shares}});
    if (std::find(drawn.begin(), drawn.end(), g) != drawn.end()) {
      chart.series.push_back({track.name(), shares, track.name()});
    }
  }
  result.figure(histogram_svg(chart),
                concat("Exact zeros are left out; every bin is a share of all gates of the layer.",
                       drawn.size() < m.gates.size() ? concat(" Drawn are ", drawn.size(), " of ", m.gates.size(),
                                                              "; gates_histogram.csv has all.")
                                                     : std::string()));
  result.table("gates_histogram.csv", table, false);
  result.json["histogram"] = json;
}

}  // namespace

void study_gates(const StudyInput& input, StudyResult& result) {
  const Measurement& m = *input.measured;
  const double saturation = saturation_level(input.model->config());
  const GateStatistics initial = initial_statistics(input);
  Table layers, heads;
  const bool pool = m.gates.front().pool;
  layers.caption = "Gates of each layer, over all heads and tokens";
  layers.columns = figure_columns(pool, false);
  heads.columns = figure_columns(pool, true);
  std::vector<double> means, zeros, saturated;
  std::vector<float> head_means;
  std::map<std::int64_t, std::pair<double, double>> depth;  // mean and zeros, summed over sources
  double gravity = 0, weight = 0;
  result.json["saturated_from"] = saturation;
  for (const GateTrack& track : m.gates) {
    const at::Tensor flat = track.gates_WTH.reshape({-1}).contiguous();
    const float* data = flat.const_data_ptr<float>();
    const Figures all = figures_of({data, data + flat.numel()}, saturation);
    Json layer = to_json(all, initial.layer(track.layer, track.source).zero_share);
    layer["layer"] = track.layer;
    layer["source"] = track.source;
    layers.rows.push_back(figure_row(track, {}, all, initial.layer(track.layer, track.source).zero_share));
    const std::vector<HeadGates> before = initial.heads(track.layer, track.source);
    for (std::int64_t h = 0; h < m.heads(); ++h) {
      const Figures f = figures_of(head_gates(track, h), saturation);
      const double at_start = before[static_cast<std::size_t>(h)].zero_share;
      heads.rows.push_back(figure_row(track, h, f, at_start));
      layer["heads"].push_back(to_json(f, at_start));
      means.push_back(f.mean);
      zeros.push_back(f.zeros);
      saturated.push_back(f.saturated);
      head_means.push_back(static_cast<float>(f.mean));
    }
    depth[track.layer].first += all.mean;
    depth[track.layer].second = all.zeros;
    gravity += static_cast<double>(track.layer) * std::fabs(all.mean);
    weight += std::fabs(all.mean);
    result.json["layers"].push_back(layer);
  }
  const Concentration over_heads = concentration(head_means);
  const auto dead = std::count(zeros.begin(), zeros.end(), 1.0);
  result.json["over_heads"] = {
      {"gini", over_heads.gini},
      {"entropy", over_heads.entropy},
      {"top10_share", over_heads.top10},
      {"dead", dead},
      {"mean_layer", weight > 0 ? gravity / weight : std::numeric_limits<double>::quiet_NaN()}};

  LineChart profile;
  profile.title = "Gates over depth";
  profile.x_label = "layer";
  profile.y_label = "mean gate, share";
  Line mean = named_line("mean gate"), zero = named_line("share of zeros"),
       start = named_line("zeros before training", {}, {}, true);
  for (const auto& [layer, values] : depth) {
    mean.xs.push_back(static_cast<double>(layer));
    mean.ys.push_back(values.first);
    zero.xs.push_back(static_cast<double>(layer));
    zero.ys.push_back(values.second);
    start.xs.push_back(static_cast<double>(layer));
    start.ys.push_back(initial.layer(layer).zero_share);
  }
  profile.lines = {mean, zero, start};
  result.figure(line_chart_svg(profile), pool ? "Means are sums over the source layers." : "");
  result.figure(heat_map_svg(head_map("Mean gate of each layer and head", m.gates, means)));
  HeatMap zero_map = head_map("Share of exact zeros", m.gates, zeros);
  zero_map.low = 0;
  zero_map.high = 1;
  result.figure(heat_map_svg(zero_map));
  HeatMap saturated_map =
      head_map(concat("Share of gates of ", number_text(saturation), " and more"), m.gates, saturated);
  saturated_map.low = 0;
  saturated_map.high = 1;
  result.figure(heat_map_svg(saturated_map));
  add_histogram(m, result);
  result.table("gates_layers.csv", layers);
  result.table("gates_heads.csv", heads, false);
  result.paragraph(concat("Over the heads of all layers: Gini ", fixed(over_heads.gini, 3), ", the top tenth holds ",
                          fixed(100 * over_heads.top10, 1), " % of the mean gates, ", dead,
                          (dead == 1 ? " head is" : " heads are"),
                          " zero on every token. Zeros before training are those of the same model with "
                          "the weights of seed ",
                          input.seed, "."));
  const GateTrack* strongest = &m.gates.front();
  double most = -std::numeric_limits<double>::infinity();
  for (std::size_t i = 0; i < layers.rows.size(); ++i) {
    const double value = *layers.rows[i][pool ? 2 : 1].value;
    if (value > most) {
      most = value;
      strongest = &m.gates[i];
    }
  }
  double zero_sum = 0, initial_sum = 0;
  for (const GateTrack& track : m.gates) {
    zero_sum += track.gates_WTH.eq(0).to(at::kDouble).mean().item<double>();
    initial_sum += initial.layer(track.layer, track.source).zero_share;
  }
  const auto n = static_cast<double>(m.gates.size());
  result.summary.push_back(concat("zeros ", fixed(100 * zero_sum / n, 1), " % (", fixed(100 * initial_sum / n, 1),
                                  " % before training); largest mean gate ", fixed(most, 4), " in ",
                                  strongest->name(), "; over heads Gini ", fixed(over_heads.gini, 2), ", dead ",
                                  dead));
}

}  // namespace satformer
