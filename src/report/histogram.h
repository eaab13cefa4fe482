// Distributions as SVG.
#pragma once

#include <span>
#include <string>
#include <vector>

namespace satformer {

struct HistogramSeries {
  std::string label = {};
  std::vector<double> counts = {};  // one for each bin: counts, shares or densities, not negative
  std::string group = {};           // as in report/line_chart.h
};

struct Histogram {
  std::string title = {}, subtitle = {}, x_label = {}, y_label = {};
  std::vector<double> edges = {};  // of the bins, rising, one more than bins
  std::vector<HistogramSeries> series = {};
  bool log_y = false;
};

// A whole SVG document, 720 wide: filled steps, one outline for each series. Error(internal) if the numbers do not
// fit.
std::string histogram_svg(const Histogram& histogram);

// Shares of the finite values in each bin; a value outside the edges counts in the first or last bin, one on an edge
// in the bin to its right (the last edge: the last bin). All zero if there is no finite value.
std::vector<double> bin_shares(std::span<const double> values, std::span<const double> edges);

}  // namespace satformer
