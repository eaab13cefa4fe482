// Axes of charts: ranges, round ticks, and the frame of a plot.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "report/svg.h"

namespace satformer {

// From values to pixels; logarithmic axes hold values above zero only.
struct Axis {
  double low = 0, high = 1;
  bool log = false;
  double from = 0, to = 1;  // pixels of low and high
  double at(double value) const;
};

// Finite and small enough to compute with, and above zero on a logarithmic axis.
bool drawable(double value, bool log = false);

// The range of values that an axis shows; without any, 0 to 1 (logarithmic 1 to 10).
class Extent {
 public:
  explicit Extent(bool log) : log_(log) {}
  void add(double value);  // drawable
  bool empty() const { return empty_; }
  // Widened by `pad` of it on both sides, never empty and never so narrow that rounding would show.
  std::pair<double, double> range(double pad) const;

 private:
  bool log_, empty_ = true;
  double low_ = 0, high_ = 0;
};

struct Tick {
  double value = 0;
  std::string label = {};
};

// Between two and about `count` + 1 round values in the axis's range.
std::vector<Tick> axis_ticks(const Axis& axis, int count);

// Grid, tick labels and axis names around the plot. The y axis's labels stand left of the box, the x axis's below it.
void draw_frame(Svg& svg, const Box& plot, const Axis& x, const Axis& y, const std::string& x_label,
                const std::string& y_label);
double frame_left(const Axis& y, const std::string& y_label);  // pixels that draw_frame needs left of the box
double frame_below(const std::string& x_label);                // and below it

}  // namespace satformer
