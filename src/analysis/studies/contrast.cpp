// Gates on two groups of texts.
#include <ATen/ops/stack.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "analysis/charts.h"
#include "analysis/studies/list.h"
#include "analysis/text_rows.h"
#include "base/error.h"

namespace satformer {
namespace {

// Of one group: means of each text's gates [texts, N] over its tokens (N = tracks x heads), and each text's loss.
struct Group {
  at::Tensor gates_XN;  // fp64
  std::vector<double> losses;
  std::int64_t tokens = 0, cut = 0;
};

Group measure_group(const StudyInput& input, std::size_t number, std::vector<GateTrack>& tracks) {
  Group group;
  std::vector<at::Tensor> rows;
  const std::vector<std::string>& texts = input.contrast[number];
  for (std::size_t i = 0; i < texts.size(); ++i) {
    if (input.progress)
      input.progress(concat(input.contrast_names[number], ": ", i + 1, "/", texts.size(), " texts"));
    const TextRow text = text_row(texts[i], *input.tokenizer, input.model->config(),
                                  concat(input.contrast_names[number], ", text ", i + 1));
    PassOptions options;
    const Measurement m = measure(*input.model, text.tokens_1T1, *input.kinds, options, -1);
    const std::int64_t tokens = m.length() - 1;  // without the end of document before them
    std::vector<at::Tensor> means;
    for (const GateTrack& track : m.gates) {
      means.push_back(track.gates_WTH[0].narrow(0, 1, tokens).to(at::kDouble).mean(0));
    }
    rows.push_back(at::stack(means).flatten());
    group.losses.push_back(m.losses_WT[0].narrow(0, 0, tokens).to(at::kDouble).mean().item<double>());
    group.tokens += tokens;
    group.cut += text.cut;
    tracks = m.gates;
  }
  group.gates_XN = at::stack(rows).contiguous();
  return group;
}

}  // namespace

void study_contrast(const StudyInput& input, StudyResult& result) {
  std::vector<GateTrack> tracks;
  const Group first = measure_group(input, 0, tracks), second = measure_group(input, 1, tracks);
  const auto column = [](const Group& group, std::int64_t n) {
    const at::Tensor values = group.gates_XN.select(1, n).contiguous();
    return std::vector<double>(values.const_data_ptr<double>(), values.const_data_ptr<double>() + values.numel());
  };
  const std::string& a = input.contrast_names[0];
  const std::string& b = input.contrast_names[1];
  Table table;
  table.caption = concat("Mean gates on ", a, " (", first.losses.size(), " texts, ", first.tokens, " tokens) and ", b,
                         " (", second.losses.size(), " texts, ", second.tokens, " tokens)");
  table.columns = {{"layer", true, ""}, {"source", true, ""},     {"head", true, ""},          {a, true, ""},
                   {b, true, ""},       {"difference", true, ""}, {"95 % interval", false, ""}};
  table.notes = {"Second - first; bootstrap over texts, both groups drawn anew."};
  const std::int64_t H = tracks.front().gates_WTH.size(2);
  std::vector<double> differences;
  std::int64_t apart = 0;
  BarChart bars;
  bars.title = "Difference of the mean gate of each layer";
  bars.subtitle = concat(b, " - ", a, ", with 95 % intervals over texts");
  for (std::size_t g = 0; g < tracks.size(); ++g) {
    std::vector<double> layer_first(first.losses.size(), 0), layer_second(second.losses.size(), 0);
    for (std::int64_t h = 0; h < H; ++h) {
      const std::int64_t n = static_cast<std::int64_t>(g) * H + h;
      const std::vector<double> x = column(first, n), y = column(second, n);
      for (std::size_t i = 0; i < x.size(); ++i) layer_first[i] += x[i] / static_cast<double>(H);
      for (std::size_t i = 0; i < y.size(); ++i) layer_second[i] += y[i] / static_cast<double>(H);
      const GroupDifference d = group_difference(x, y, input.resamples, concat("contrast/", n));
      differences.push_back(d.second - d.first);
      const bool clear = d.interval.low > 0 || d.interval.high < 0;
      apart += clear;
      table.rows.push_back({Cell(double(tracks[g].layer)), Cell(double(tracks[g].source)), Cell(double(h)),
                            Cell(d.first), Cell(d.second),
                            Cell(number_text(d.second - d.first), d.second - d.first, {}, clear),
                            interval_cell(d.interval)});
      result.json["heads"].push_back({{"layer", tracks[g].layer},
                                      {"source", tracks[g].source},
                                      {"head", h},
                                      {"first", d.first},
                                      {"second", d.second},
                                      {"low", d.interval.low},
                                      {"high", d.interval.high}});
    }
    const GroupDifference d =
        group_difference(layer_first, layer_second, input.resamples, concat("contrast/layer/", g));
    Estimate e;
    e.value = d.second - d.first;
    e.interval = d.interval;
    bars.bars.push_back(estimate_bar(tracks[g].name(), e));
  }
  const GroupDifference loss = group_difference(first.losses, second.losses, input.resamples, "contrast/loss");
  result.json["loss"] = {
      {"first", loss.first}, {"second", loss.second}, {"low", loss.interval.low}, {"high", loss.interval.high}};
  HeatMap map = head_map(concat("Mean gate on ", b, " less that on ", a), tracks, differences);
  map.scale = ScaleKind::diverging;
  result.figure(heat_map_svg(map));
  result.figure(bar_chart_svg(bars));
  if (first.cut + second.cut > 0) {
    result.paragraph(
        concat(first.cut + second.cut, " tokens at the ends of texts did not fit into the model's context."));
  }
  if (first.cut + second.cut > 0) {
    result.summary.push_back(
        concat(first.cut + second.cut, " tokens at the ends of texts did not fit into the context"));
  }
  result.table("contrast.csv", table, table.rows.size() <= 256);
  result.summary.push_back(concat(apart, " of ", table.rows.size(), " heads differ (95 % interval without 0); loss ",
                                  fixed(loss.first, 4), " and ", fixed(loss.second, 4)));
}

}  // namespace satformer
