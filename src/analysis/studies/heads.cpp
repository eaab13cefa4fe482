// Similarity of the heads' gates, and clusters of heads.
#include "analysis/head_similarity.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/full_like.h>
#include <ATen/ops/outer.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "analysis/charts.h"
#include "analysis/figures.h"
#include "analysis/studies/list.h"
#include "base/error.h"
#include "report/heat_map.h"

namespace satformer {
namespace {

constexpr double cluster_threshold = 0.5;
constexpr std::int64_t most_drawn = 128;

}  // namespace

at::Tensor head_correlations(const std::vector<GateTrack>& tracks) {
  const std::int64_t W = tracks.front().gates_WTH.size(0);
  at::Tensor shift_N, sum_N, product_NN;
  double count = 0;
  for (std::int64_t w = 0; w < W; ++w) {
    std::vector<at::Tensor> parts;
    for (const GateTrack& track : tracks) parts.push_back(track.gates_WTH[w].to(at::kDouble));
    at::Tensor x_TN = at::cat(parts, 1);
    // Around the first window's mean, so that squares do not cancel.
    if (!shift_N.defined()) shift_N = x_TN.mean(0);
    x_TN = x_TN - shift_N;
    const at::Tensor sum = x_TN.sum(0), product = x_TN.t().matmul(x_TN);
    sum_N = sum_N.defined() ? sum_N + sum : sum;
    product_NN = product_NN.defined() ? product_NN + product : product;
    count += static_cast<double>(x_TN.size(0));
  }
  const at::Tensor mean = sum_N / count;
  const at::Tensor covariance = product_NN / count - at::outer(mean, mean);
  const at::Tensor deviation = covariance.diagonal().clamp_min(0).sqrt();
  const at::Tensor varies = deviation.gt((shift_N.abs() + 1e-12) * 1e-7);
  const at::Tensor result = (covariance / at::outer(deviation, deviation)).clamp(-1, 1);
  const at::Tensor known = varies.unsqueeze(0).logical_and(varies.unsqueeze(1));
  return at::where(known, result, at::full_like(result, std::numeric_limits<double>::quiet_NaN())).contiguous();
}

void study_heads(const StudyInput& input, StudyResult& result) {
  const Measurement& m = *input.measured;
  const std::int64_t H = m.heads(), N = static_cast<std::int64_t>(m.gates.size()) * H;
  const at::Tensor similarity = head_correlations(m.gates);
  const double* s = similarity.const_data_ptr<double>();
  const std::vector<std::int64_t> clusters =
      average_linkage({s, static_cast<std::size_t>(N * N)}, N, cluster_threshold);
  const std::int64_t count = *std::max_element(clusters.begin(), clusters.end()) + 1;
  std::vector<std::int64_t> sizes(static_cast<std::size_t>(count), 0);
  for (const std::int64_t c : clusters) ++sizes[static_cast<std::size_t>(c)];
  const auto name = [&](std::int64_t i) {
    return concat(m.gates[static_cast<std::size_t>(i / H)].name(), " head ", i % H);
  };

  double within = 0, between = 0, within_count = 0, between_count = 0;
  Table table, matrix;
  table.columns = {{"layer", true, ""},      {"source", true, ""},      {"head", true, ""},
                   {"cluster", true, ""},    {"heads in it", true, ""}, {"most similar", false, ""},
                   {"correlation", true, ""}};
  table.caption = concat("Heads and their clusters (average linkage at a correlation of ", cluster_threshold, ")");
  matrix.columns = {{"head", false, ""}};
  for (std::int64_t i = 0; i < N; ++i) matrix.columns.push_back({name(i), true, ""});
  for (std::int64_t i = 0; i < N; ++i) {
    const GateTrack& track = m.gates[static_cast<std::size_t>(i / H)];
    std::int64_t nearest = -1;
    std::vector<Cell> line = {Cell(name(i))};
    for (std::int64_t j = 0; j < N; ++j) {
      const double value = s[i * N + j];
      line.emplace_back(value);
      if (i == j || std::isnan(value)) continue;
      if (nearest < 0 || value > s[i * N + nearest]) nearest = j;
      (i / H == j / H ? within : between) += value;
      (i / H == j / H ? within_count : between_count) += 1;
    }
    matrix.rows.push_back(std::move(line));
    const std::int64_t cluster = clusters[static_cast<std::size_t>(i)];
    const double best = nearest >= 0 ? s[i * N + nearest] : std::numeric_limits<double>::quiet_NaN();
    table.rows.push_back({Cell(double(track.layer)), Cell(double(track.source)), Cell(double(i % H)),
                          Cell(double(cluster)), Cell(double(sizes[static_cast<std::size_t>(cluster)])),
                          Cell(nearest >= 0 ? name(nearest) : "–"), Cell(best)});
    result.json["heads"].push_back(
        {{"layer", track.layer}, {"source", track.source}, {"head", i % H}, {"cluster", cluster}});
    result.json["similarity"].push_back(std::vector<double>(s + i * N, s + (i + 1) * N));
  }
  within /= within_count;
  between /= between_count;
  result.json["clusters"] = count;
  result.json["mean_within_layers"] = within;
  result.json["mean_between_layers"] = between;

  HeatMap map;
  map.scale = ScaleKind::diverging;
  map.low = -1;
  map.high = 1;
  if (N <= most_drawn) {
    map.title = "Correlation of every two heads' gates over tokens";
    map.row_axis = map.column_axis = "layer.head";
    for (std::int64_t i = 0; i < N; ++i) {
      map.row_labels.push_back(concat(m.gates[static_cast<std::size_t>(i / H)].layer, ".", i % H));
    }
    map.column_labels = map.row_labels;
    map.values.assign(s, s + N * N);
  } else {
    map.title = "Mean correlation of the heads of every two layers";
    map.row_axis = map.column_axis = "layer";
    const std::int64_t L = N / H;
    const at::Tensor means = similarity.nan_to_num(0.0).view({L, H, L, H}).mean(at::IntArrayRef({1, 3})).contiguous();
    for (const GateTrack& track : m.gates) map.row_labels.push_back(track.name());
    map.column_labels = map.row_labels;
    map.values.assign(means.const_data_ptr<double>(), means.const_data_ptr<double>() + L * L);
  }
  result.figure(heat_map_svg(map));
  result.paragraph(concat(count, " clusters of ", N, " heads. Mean correlation of two heads of a layer: ",
                          fixed(within, 3), "; of two layers: ", fixed(between, 3), "."));
  result.table("heads.csv", table, N <= most_drawn);
  result.table("heads_similarity.csv", matrix, false);
  result.summary.push_back(concat(count, " clusters of ", N, " heads; mean correlation ", fixed(within, 2),
                                  " within layers, ", fixed(between, 2), " between them"));
}

}  // namespace satformer
