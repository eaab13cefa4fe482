#include "report/histogram.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "report/line_chart.h"

namespace satformer {
namespace {

void check_edges(std::span<const double> edges, const std::string& title) {
  bool rising = edges.size() >= 2;
  for (std::size_t i = 0; i < edges.size(); ++i) {
    rising = rising && std::isfinite(edges[i]) && (i == 0 || edges[i] > edges[i - 1]);
  }
  if (!rising) fail(ExitCode::internal, "histogram '", title, "': expected two or more finite rising edges");
}

}  // namespace

std::string histogram_svg(const Histogram& histogram) {
  check_edges(histogram.edges, histogram.title);
  LineChart chart;
  chart.title = histogram.title;
  chart.subtitle = histogram.subtitle;
  chart.x_label = histogram.x_label;
  chart.y_label = histogram.y_label;
  chart.log_y = histogram.log_y;
  const std::size_t bins = histogram.edges.size() - 1;
  for (const HistogramSeries& series : histogram.series) {
    const bool valid = std::all_of(series.counts.begin(), series.counts.end(),
                                   [](double count) { return std::isfinite(count) && count >= 0; });
    if (series.counts.size() != bins || !valid) {
      fail(ExitCode::internal, "histogram '", histogram.title, "': series '", series.label, "' has ",
           series.counts.size(), " counts, expected ", bins, " finite ones not below zero");
    }
    Line line;
    line.label = series.label;
    line.group = series.group;
    line.filled = true;
    for (std::size_t i = 0; i < bins; ++i) {
      // An empty bin has no place on a logarithmic axis: a gap, as documented there for NaN.
      const double y = histogram.log_y && series.counts[i] == 0 ? std::nan("") : series.counts[i];
      line.xs.insert(line.xs.end(), {histogram.edges[i], histogram.edges[i + 1]});
      line.ys.insert(line.ys.end(), {y, y});
    }
    chart.lines.push_back(std::move(line));
  }
  return line_chart_svg(chart);
}

std::vector<double> bin_shares(std::span<const double> values, std::span<const double> edges) {
  check_edges(edges, "");
  std::vector<double> shares(edges.size() - 1);
  double count = 0;
  for (const double value : values) {
    if (!std::isfinite(value)) continue;
    const auto right = std::upper_bound(edges.begin() + 1, edges.end() - 1, value);
    ++shares[static_cast<std::size_t>(right - edges.begin() - 1)];
    ++count;
  }
  for (double& share : shares) share = count > 0 ? share / count : 0;
  return shares;
}

}  // namespace satformer
