#include "report/scatter.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/error.h"
#include "report/axis.h"
#include "report/palette.h"
#include "report/svg.h"
#include "report/table.h"

namespace satformer {
namespace {

constexpr double plot_height = 340, point_radius = 5;

bool overlap(const Box& a, const Box& b) {
  return a.x < b.right() && b.x < a.right() && a.y < b.bottom() && b.y < a.bottom();
}

// How much of the box lies on boxes that are taken, or outside the plot.
double trouble(const Box& box, const Box& plot, const std::vector<Box>& taken) {
  double area = 0;
  for (const Box& other : taken) {
    if (!overlap(box, other)) continue;
    area += (std::min(box.right(), other.right()) - std::max(box.x, other.x)) *
            (std::min(box.bottom(), other.bottom()) - std::max(box.y, other.y));
  }
  const bool inside =
      box.x >= plot.x && box.right() <= plot.right() && box.y >= plot.y && box.bottom() <= plot.bottom();
  return area + (inside ? 0 : 1e6);
}

class ScatterDrawing {
 public:
  explicit ScatterDrawing(const Scatter& scatter) : scatter_(scatter) {}

  std::string svg() {
    for (const ScatterPoint& point : scatter_.points) {
      if (drawable(point.x, scatter_.log_x) && drawable(point.y, scatter_.log_y)) {
        drawn_.push_back(&point);
      } else {
        left_out_ += (left_out_.empty() ? "" : ", ") + point.label;
      }
    }
    double y = svg_.heading(scatter_.title, scatter_.subtitle) + 18;
    if (drawn_.empty()) {
      svg_.text(chart_width / 2, y + 40, "no data", "soft", Anchor::middle);
      y += 70;
    } else {
      place(y);
      draw_frame(svg_, plot_, x_, y_, scatter_.x_label, scatter_.y_label);
      if (scatter_.front) draw_front();
      draw_points();
      draw_labels();
      y = plot_.bottom() + frame_below(scatter_.x_label) + 8;
    }
    if (!left_out_.empty()) {
      for (const std::string& line : wrap_text("not drawn, without a value: " + left_out_, chart_width - 32, 12)) {
        svg_.text(chart_margin, y += 16, line, "tick");
      }
      y += 8;
    }
    return svg_.document(scatter_.title, description_, y, false);
  }

 private:
  void place(double top) {
    Extent xs(scatter_.log_x), ys(scatter_.log_y);
    const auto add = [](Extent& extent, std::optional<double> value, bool log) {
      if (value && drawable(*value, log)) extent.add(*value);
    };
    for (const ScatterPoint* point : drawn_) {
      xs.add(point->x);
      ys.add(point->y);
      for (const auto& end : {point->x_low, point->x_high}) add(xs, end, scatter_.log_x);
      for (const auto& end : {point->y_low, point->y_high}) add(ys, end, scatter_.log_y);
    }
    const auto [x_low, x_high] = xs.range(0.08);
    const auto [y_low, y_high] = ys.range(0.1);
    y_ = {y_low, y_high, scatter_.log_y, top + plot_height, top};
    const double left = frame_left(y_, scatter_.y_label);
    plot_ = {left, top, chart_width - left - 24, plot_height};
    x_ = {x_low, x_high, scatter_.log_x, plot_.x, plot_.right()};
  }

  // Steps: what stands in the corner behind them is beaten by a point of the front.
  void draw_front() {
    std::vector<ScatterPoint> points;
    for (const ScatterPoint* point : drawn_) points.push_back(*point);
    std::string path;
    const bool higher_x = scatter_.better_x == Better::higher;
    std::vector<std::size_t> front = pareto_front(points, scatter_.better_x, scatter_.better_y);
    if (higher_x) std::reverse(front.begin(), front.end());
    for (const std::size_t i : front) {
      const std::string x = pixels(x_.at(points[i].x)), y = pixels(y_.at(points[i].y));
      // From the better x to the worse: first along x, then along y.
      path += path.empty() ? concat("M", x, " ", y) : concat("H", x, "V", y);
    }
    if (front.size() > 1) svg_.path(path, "front");
    for (const std::size_t i : front) svg_.circle(x_.at(points[i].x), y_.at(points[i].y), point_radius + 4, "front");
  }

  void draw_points() {
    SeriesColours colours;
    for (const ScatterPoint* point : drawn_) {
      const int colour = colours.of(point->group.empty() ? point->label : point->group);
      const double x = x_.at(point->x), y = y_.at(point->y);
      const std::string whisker = concat("whisker stroke-", colour);
      const auto end = [](const Axis& axis, std::optional<double> value, double at) {
        return value && drawable(*value, axis.log) ? axis.at(*value) : at;
      };
      if (point->x_low || point->x_high)
        svg_.line(end(x_, point->x_low, x), y, end(x_, point->x_high, x), y, whisker);
      if (point->y_low || point->y_high)
        svg_.line(x, end(y_, point->y_low, y), x, end(y_, point->y_high, y), whisker);
      const std::string tip = concat(point->label, ": ", number_text(point->x), ", ", number_text(point->y));
      svg_.circle(x, y, point_radius, concat("fill-", colour), tip);
      description_ += concat(description_.empty() ? "" : "; ", tip);
      taken_.push_back({x - point_radius, y - point_radius, 2 * point_radius, 2 * point_radius});
    }
  }

  void draw_labels() {
    for (const ScatterPoint* point : drawn_) {
      const double x = x_.at(point->x), y = y_.at(point->y), gap = point_radius + 5;
      const std::string label = fit_text(point->label, 220);
      const double width = text_width(label), height = 16;
      const Box places[] = {{x + gap, y - height / 2, width, height},
                            {x - gap - width, y - height / 2, width, height},
                            {x - width / 2, y - gap - height, width, height},
                            {x - width / 2, y + gap, width, height},
                            {x + gap - 3, y - gap - height + 3, width, height},
                            {x + gap - 3, y + gap - 3, width, height},
                            {x - gap - width + 3, y - gap - height + 3, width, height},
                            {x - gap - width + 3, y + gap - 3, width, height}};
      const Box* best = nullptr;
      double least = 0;
      for (const Box& box : places) {
        const double cost = trouble(box, plot_, taken_);
        if (best && cost >= least) continue;
        best = &box;
        least = cost;
      }
      taken_.push_back(*best);
      svg_.text(best->x + width / 2, best->y + 12, label, "halo", Anchor::middle);
    }
  }

  const Scatter& scatter_;
  Svg svg_;
  Axis x_, y_;
  Box plot_;
  std::vector<const ScatterPoint*> drawn_;
  std::vector<Box> taken_;
  std::string left_out_, description_;
};

}  // namespace

std::string scatter_svg(const Scatter& scatter) { return ScatterDrawing(scatter).svg(); }

std::vector<std::size_t> pareto_front(const std::vector<ScatterPoint>& points, Better better_x, Better better_y) {
  // Costs: lower is better in both.
  const auto x = [&](std::size_t i) { return better_x == Better::lower ? points[i].x : -points[i].x; };
  const auto y = [&](std::size_t i) { return better_y == Better::lower ? points[i].y : -points[i].y; };
  const auto finite = [&](std::size_t i) { return std::isfinite(points[i].x) && std::isfinite(points[i].y); };
  std::vector<std::size_t> front;
  for (std::size_t i = 0; i < points.size(); ++i) {
    bool beaten = !finite(i);
    for (std::size_t j = 0; j < points.size() && !beaten; ++j) {
      beaten = finite(j) && x(j) <= x(i) && y(j) <= y(i) && (x(j) < x(i) || y(j) < y(i));
    }
    if (!beaten) front.push_back(i);
  }
  std::stable_sort(front.begin(), front.end(),
                   [&](std::size_t a, std::size_t b) { return points[a].x < points[b].x; });
  return front;
}

}  // namespace satformer
