// Labelled points with error bars, and the front of the best, as SVG.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace satformer {

struct ScatterPoint {
  std::string label = {};
  double x = 0, y = 0;
  std::optional<double> x_low = {}, x_high = {}, y_low = {}, y_high = {};  // ends of error bars
  std::string group = {};                                                  // as in report/line_chart.h
};

enum class Better { lower, higher };

struct Scatter {
  std::string title = {}, subtitle = {}, x_label = {}, y_label = {};
  bool log_x = false, log_y = false;
  std::vector<ScatterPoint> points = {};
  bool front = false;  // draw the Pareto front
  Better better_x = Better::lower, better_y = Better::lower;
};

// A whole SVG document, 720 wide. Points that are not finite (or not above zero on a logarithmic axis) are left out
// and named in a line below the chart.
std::string scatter_svg(const Scatter& scatter);

// Indices of the points that no other is at least as good as in both and better in one, by rising x. Not finite:
// never.
std::vector<std::size_t> pareto_front(const std::vector<ScatterPoint>& points, Better better_x, Better better_y);

}  // namespace satformer
