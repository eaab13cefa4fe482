// Lines over a numeric axis, with bands, as SVG.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace satformer {

struct Line {
  std::string label = {};
  std::vector<double> xs = {}, ys = {};     // equally many, or Error(internal); xs in the order to be joined
  std::vector<double> low = {}, high = {};  // ends of the band around the line; empty: none
  bool dashed = false;
  std::string group =
      {};  // lines of a group share a colour; empty: the label. An architecture's name has its own colour
  bool filled = false;  // the area between line and zero (or the lower edge)
};

struct ChartReference {
  double value = 0;  // a dashed horizontal line
  std::string label = {};
};

struct LineChart {
  std::string title = {}, subtitle = {}, x_label = {}, y_label = {};
  bool log_x = false, log_y = false;
  std::vector<Line> lines = {};
  std::vector<ChartReference> references = {};
  std::optional<std::pair<double, double>> y_range =
      {};  // what lies outside is cut off at the edge; unset: all values
};

// A whole SVG document, 720 wide. Labels stand at the ends of the lines, or in a legend below where they would not
// fit. A point whose x or y is NaN is a gap in its line. Infinite values, and on logarithmic axes those not above
// zero, are gaps too and are counted in a line below the chart. Of many points in a column of pixels the first,
// lowest, highest and last are drawn. A chart without any point says "no data".
std::string line_chart_svg(const LineChart& chart);

}  // namespace satformer
