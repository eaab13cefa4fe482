// How gates go with the frequency of a token, with the loss, and with the token having stood in the context before.
#include <cmath>
#include <nlohmann/json.hpp>
#include <unordered_set>

#include "analysis/charts.h"
#include "analysis/figures.h"
#include "analysis/studies/list.h"
#include "base/error.h"
#include "report/heat_map.h"

namespace satformer {
namespace {

// What a token's gates are compared with, over all tokens of the windows.
struct Traits {
  std::vector<float> log_count, loss_next, before;
  std::vector<float> loss_own;        // of the token itself; the first of each window has none
  std::vector<std::size_t> with_own;  // tokens that have one
};

Traits traits_of(const StudyInput& input) {
  const Measurement& m = *input.measured;
  const std::int64_t T = m.length();
  const at::Tensor losses_WT = m.losses_WT.contiguous();
  const std::int64_t* tokens = m.tokens_WT1.const_data_ptr<std::int64_t>();
  const float* losses = losses_WT.const_data_ptr<float>();
  Traits traits;
  for (std::int64_t w = 0; w < m.windows(); ++w) {
    std::unordered_set<std::int64_t> seen;
    for (std::int64_t t = 0; t < T; ++t) {
      const std::int64_t id = tokens[w * (T + 1) + t];
      const std::size_t index = traits.before.size();
      traits.log_count.push_back(std::log(static_cast<float>(input.token_counts[static_cast<std::size_t>(id)] + 1)));
      traits.loss_next.push_back(losses[w * T + t]);
      traits.before.push_back(seen.insert(id).second ? 0.0f : 1.0f);
      traits.loss_own.push_back(t > 0 ? losses[w * T + t - 1] : 0.0f);
      if (t > 0) traits.with_own.push_back(index);
      if (input.document_end && id == *input.document_end) seen.clear();
    }
  }
  return traits;
}

std::vector<float> at_indices(const std::vector<float>& values, const std::vector<std::size_t>& indices) {
  std::vector<float> result;
  result.reserve(indices.size());
  for (const std::size_t i : indices) result.push_back(values[i]);
  return result;
}

struct Correlations {
  double frequency, loss_next, loss_own, before;
};

Correlations correlations(const std::vector<float>& gates, const Traits& t, const std::vector<float>& own) {
  return {pearson(gates, t.log_count), pearson(gates, t.loss_next), pearson(at_indices(gates, t.with_own), own),
          pearson(gates, t.before)};
}

Json to_json(const Correlations& c) {
  return {{"log_frequency", c.frequency},
          {"loss_next", c.loss_next},
          {"loss_own", c.loss_own},
          {"seen_before", c.before}};
}

}  // namespace

void study_relations(const StudyInput& input, StudyResult& result) {
  const Measurement& m = *input.measured;
  const Traits traits = traits_of(input);
  const std::vector<float> own = at_indices(traits.loss_own, traits.with_own);
  const std::vector<float> rank_count = ranks(traits.log_count), rank_next = ranks(traits.loss_next);
  Table layers, heads;
  layers.caption = "Correlation of the mean gate of each layer's heads, over tokens";
  layers.columns = {{"layer", true, ""}, {"source", true, ""}};
  for (const char* name : {"frequency", "frequency ranks", "next loss", "next loss ranks", "own loss", "seen before",
                           "gate if seen", "gate if new"}) {
    layers.columns.push_back({name, true, ""});
  }
  layers.notes = {
      "Pearson's correlation with the token's log frequency, the loss of predicting the next token and the token "
      "itself, and "
      "having been seen before; of ranks: Spearman's."};
  heads.columns = {{"layer", true, ""},
                   {"source", true, ""},
                   {"head", true, ""},
                   {"log frequency", true, ""},
                   {"loss of the next token", true, ""},
                   {"loss of the token", true, ""},
                   {"seen before", true, ""}};
  std::vector<double> maps[4];
  Line lines[4] = {named_line("log frequency"), named_line("loss of the next token"), named_line("loss of the token"),
                   named_line("seen before")};
  double strongest = 0;
  std::string strongest_text = "none";
  for (const GateTrack& track : m.gates) {
    const std::vector<float> gates = layer_gates(track);
    const Correlations c = correlations(gates, traits, own);
    const std::vector<float> rank = ranks(gates);
    const double frequency_ranks = pearson(rank, rank_count), next_ranks = pearson(rank, rank_next);
    double sum[2] = {0, 0}, count[2] = {0, 0};
    for (std::size_t i = 0; i < gates.size(); ++i) {
      const std::size_t seen = traits.before[i] > 0 ? 1 : 0;
      sum[seen] += gates[i];
      count[seen] += 1;
    }
    const double if_new = sum[0] / count[0], if_seen = sum[1] / count[1];
    Json json = to_json(c);
    json["layer"] = track.layer;
    json["source"] = track.source;
    json["log_frequency_ranks"] = frequency_ranks;
    json["loss_next_ranks"] = next_ranks;
    json["mean_if_seen"] = if_seen;
    json["mean_if_new"] = if_new;
    layers.rows.push_back({Cell(double(track.layer)), Cell(double(track.source)), Cell(c.frequency),
                           Cell(frequency_ranks), Cell(c.loss_next), Cell(next_ranks), Cell(c.loss_own),
                           Cell(c.before), Cell(if_seen), Cell(if_new)});
    const double values[4] = {c.frequency, c.loss_next, c.loss_own, c.before};
    for (std::size_t i = 0; i < 4; ++i) {
      lines[i].xs.push_back(static_cast<double>(track.layer));
      lines[i].ys.push_back(values[i]);
      if (std::fabs(values[i]) > std::fabs(strongest)) {
        strongest = values[i];
        strongest_text = concat(fixed(values[i], 2), " with ", lines[i].label, " in ", track.name());
      }
    }
    for (std::int64_t h = 0; h < m.heads(); ++h) {
      const Correlations of_head = correlations(head_gates(track, h), traits, own);
      json["heads"].push_back(to_json(of_head));
      heads.rows.push_back({Cell(double(track.layer)), Cell(double(track.source)), Cell(double(h)),
                            Cell(of_head.frequency), Cell(of_head.loss_next), Cell(of_head.loss_own),
                            Cell(of_head.before)});
      maps[0].push_back(of_head.frequency);
      maps[1].push_back(of_head.loss_next);
      maps[2].push_back(of_head.loss_own);
      maps[3].push_back(of_head.before);
    }
    result.json["layers"].push_back(std::move(json));
  }
  if (!m.gates.front().pool) {
    LineChart chart;
    chart.title = "Correlation of gates with what is known of the token";
    chart.x_label = "layer";
    chart.y_label = "correlation";
    chart.lines.assign(std::begin(lines), std::end(lines));
    chart.references = {{0, ""}};
    result.figure(line_chart_svg(chart), "Mean over the heads of a layer.");
  }
  for (const std::size_t i : {std::size_t{0}, std::size_t{3}}) {
    HeatMap map = head_map("Correlation with " + std::string(i == 0 ? "log frequency" : "having been seen before"),
                           m.gates, std::move(maps[i]));
    map.scale = ScaleKind::diverging;
    map.low = -1;
    map.high = 1;
    result.figure(heat_map_svg(map));
  }
  result.table("relations_layers.csv", layers);
  result.table("relations_heads.csv", heads, false);
  result.summary.push_back("strongest correlation of a layer's mean gate: " + strongest_text);
}

}  // namespace satformer
