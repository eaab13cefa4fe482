#include "report/line_chart.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "report/axis.h"
#include "report/palette.h"
#include "report/svg.h"
#include "report/table.h"
#include "report/thin.h"

namespace satformer {
namespace {

constexpr double plot_height = 300, label_height = 17;
constexpr std::size_t most_markers = 24;

struct Label {
  LegendEntry entry;
  double x = 0, y = 0;  // the end of its line
  double at = 0;        // where it stands
};

void check(const LineChart& chart) {
  for (const Line& line : chart.lines) {
    const std::size_t n = line.xs.size();
    const auto fits = [&](const std::vector<double>& band) { return band.empty() || band.size() == n; };
    if (line.ys.size() != n || !fits(line.low) || !fits(line.high) || line.low.empty() != line.high.empty()) {
      fail(ExitCode::internal, "line chart '", chart.title, "': line '", line.label, "' has ", n, " x, ",
           line.ys.size(), " y, ", line.low.size(), " low and ", line.high.size(),
           " high values, expected equally many or no band");
    }
  }
  if (chart.y_range) {
    const auto [low, high] = *chart.y_range;
    if (!drawable(low, chart.log_y) || !drawable(high, chart.log_y) || !(low < high)) {
      fail(ExitCode::internal, "line chart '", chart.title, "': no y axis from ", low, " to ", high);
    }
  }
}

class LineDrawing {
 public:
  explicit LineDrawing(const LineChart& chart) : chart_(chart), x_extent_(chart.log_x), y_extent_(chart.log_y) {}

  std::string svg() {
    measure();
    const double top = svg_.heading(chart_.title, chart_.subtitle) + 18;
    if (x_extent_.empty()) {
      svg_.text(chart_width / 2, top + 40, "no data", "soft", Anchor::middle);
      return finish(top + 70);
    }
    place(top);
    draw_frame(svg_, plot_, x_, y_, chart_.x_label, chart_.y_label);
    svg_.open_clip({plot_.x - 4, plot_.y - 4, plot_.width + 8, plot_.height + 8});
    for (const ChartReference& reference : chart_.references) {
      if (!drawable(reference.value, chart_.log_y)) continue;
      svg_.line(plot_.x, y_.at(reference.value), plot_.right(), y_.at(reference.value), "reference");
    }
    for (std::size_t i = 0; i < chart_.lines.size(); ++i) draw_area(chart_.lines[i], colours_[i]);
    for (std::size_t i = 0; i < chart_.lines.size(); ++i) draw_line(chart_.lines[i], colours_[i]);
    svg_.close();
    double bottom = plot_.bottom() + frame_below(chart_.x_label);
    if (beside_) {
      draw_labels();
    } else {
      std::vector<LegendEntry> entries;
      for (const Label& label : labels_) entries.push_back(label.entry);
      bottom = legend(svg_, bottom + 8, entries);
    }
    return finish(bottom + 8);
  }

 private:
  bool usable(const Line& line, std::size_t i) const {
    return drawable(line.xs[i], chart_.log_x) && drawable(line.ys[i], chart_.log_y);
  }

  void measure() {
    SeriesColours colours;
    for (const Line& line : chart_.lines) {
      colours_.push_back(colours.of(line.group.empty() ? line.label : line.group));
      Label label{{line.label, colours_.back(), line.dashed, false}};
      std::size_t points = 0;
      for (std::size_t i = 0; i < line.xs.size(); ++i) {
        if (!usable(line, i)) {
          if (!std::isnan(line.xs[i]) && !std::isnan(line.ys[i])) ++left_out_;
          continue;
        }
        x_extent_.add(line.xs[i]);
        y_extent_.add(line.ys[i]);
        for (const auto* band : {&line.low, &line.high}) {
          if (!band->empty() && drawable((*band)[i], chart_.log_y)) y_extent_.add((*band)[i]);
        }
        label.x = line.xs[i];
        label.y = line.ys[i];
        ++points;
      }
      if (line.filled && !chart_.log_y && points > 0) y_extent_.add(0);
      description_ += concat(description_.empty() ? "" : "; ", line.label, ": ");
      description_ +=
          points == 0 ? "no data" : concat("ends at ", number_text(label.y), " for ", number_text(label.x));
      if (points > 0) labels_.push_back(label);
    }
    for (const ChartReference& reference : chart_.references) {
      if (!drawable(reference.value, chart_.log_y)) {
        ++left_out_;
        continue;
      }
      if (!chart_.y_range && !x_extent_.empty()) y_extent_.add(reference.value);
      labels_.push_back({{reference.label, 0, false, true}, 0, reference.value});
    }
  }

  void place(double top) {
    const auto [x_low, x_high] = x_extent_.range(0);
    const auto [y_low, y_high] = chart_.y_range ? *chart_.y_range : y_extent_.range(0.05);
    y_ = {y_low, y_high, chart_.log_y, top + plot_height, top};
    double widest = 0;
    std::erase_if(labels_, [](const Label& label) { return label.entry.label.empty(); });
    for (const Label& label : labels_) widest = std::max(widest, text_width(label.entry.label) + 36);
    // A label of a line that ends in the middle of the plot would need a long leader: then a legend is clearer.
    x_ = {x_low, x_high, chart_.log_x, 0, 1};
    const bool reach_end = std::all_of(labels_.begin(), labels_.end(), [&](const Label& label) {
      return label.entry.reference || x_.at(label.x) > 0.8;
    });
    beside_ = reach_end && widest <= 230 && static_cast<double>(labels_.size()) * label_height <= plot_height;
    const double left = frame_left(y_, chart_.y_label), right = beside_ ? std::max(widest, 24.0) : 24;
    plot_ = {left, top, chart_width - left - right, plot_height};
    x_.from = plot_.x;
    x_.to = plot_.right();
  }

  // Visits every run of usable points.
  static void for_segments(std::size_t count, const auto& is_usable, const auto& visit) {
    std::vector<std::size_t> segment;
    for (std::size_t i = 0; i <= count; ++i) {
      if (i < count && is_usable(i)) {
        segment.push_back(i);
      } else if (!segment.empty()) {
        visit(segment);
        segment.clear();
      }
    }
  }

  // Between low and high; one column of pixels at a time, with the widest that the band has there.
  std::string band(const Line& line, const std::vector<std::size_t>& segment) const {
    std::string forth, back;
    for (std::size_t k = 0; k < segment.size();) {
      const double x = x_.at(line.xs[segment[k]]);
      double top = 1e9, bottom = -1e9;
      for (; k < segment.size() && std::floor(x_.at(line.xs[segment[k]])) == std::floor(x); ++k) {
        top = std::min(top, y_.at(line.high[segment[k]]));
        bottom = std::max(bottom, y_.at(line.low[segment[k]]));
      }
      forth += concat(forth.empty() ? "M" : "L", pixels(x), " ", pixels(top));
      back.insert(0, concat("L", pixels(x), " ", pixels(bottom)));
    }
    return forth + back + "Z";
  }

  void draw_area(const Line& line, int colour) {
    const std::string classes = concat("band fill-", colour);
    if (!line.low.empty()) {
      const auto whole = [&](std::size_t i) {
        return usable(line, i) && drawable(line.low[i], chart_.log_y) && drawable(line.high[i], chart_.log_y);
      };
      for_segments(line.xs.size(), whole, [&](const auto& segment) { svg_.path(band(line, segment), classes); });
    }
    if (line.filled) {
      const auto whole = [&](std::size_t i) { return usable(line, i); };
      for_segments(line.xs.size(), whole, [&](const auto& segment) {
        if (segment.size() > 1) svg_.path(area(line, segment), classes);
      });
    }
  }

  // Under the line as it is drawn, also where it rises straight up.
  std::string area(const Line& line, const std::vector<std::size_t>& segment) const {
    const double base = std::clamp(chart_.log_y ? plot_.bottom() : y_.at(0), plot_.y, plot_.bottom());
    std::string path = concat("M", pixels(x_.at(line.xs[segment.front()])), " ", pixels(base));
    path += curve(line, segment, "L");
    return path + concat("L", pixels(x_.at(line.xs[segment.back()])), " ", pixels(base), "Z");
  }

  std::string curve(const Line& line, const std::vector<std::size_t>& segment, const char* first) const {
    std::vector<double> xs, ys;
    for (const std::size_t i : segment) {
      xs.push_back(x_.at(line.xs[i]));
      ys.push_back(y_.at(line.ys[i]));
    }
    std::string path;
    for (const std::size_t k : thin_points(xs, ys)) {
      path += concat(path.empty() ? first : "L", pixels(xs[k]), " ", pixels(ys[k]));
    }
    return path;
  }

  void draw_line(const Line& line, int colour) {
    const std::string stroke = concat("curve stroke-", colour, line.dashed ? " dashed" : "");
    std::size_t points = 0;
    const auto is_usable = [&](std::size_t i) { return usable(line, i); };
    for_segments(line.xs.size(), is_usable, [&](const auto& segment) { points += segment.size(); });
    for_segments(line.xs.size(), is_usable, [&](const auto& segment) {
      if (segment.size() > 1) svg_.path(curve(line, segment, "M"), stroke);
      if (segment.size() > 1 && (line.filled || points > most_markers)) return;
      for (const std::size_t i : segment) {
        svg_.circle(x_.at(line.xs[i]), y_.at(line.ys[i]), 3, concat("fill-", colour),
                    concat(line.label, ": ", number_text(line.ys[i]), " at ", number_text(line.xs[i])));
      }
    });
  }

  void draw_labels() {
    for (Label& label : labels_) {
      if (label.entry.reference) label.x = x_.high;
      label.at = std::clamp(y_.at(label.y), plot_.y, plot_.bottom());
    }
    std::stable_sort(labels_.begin(), labels_.end(), [](const Label& a, const Label& b) { return a.at < b.at; });
    // Down where they meet, then up from the bottom of the plot.
    for (std::size_t i = 1; i < labels_.size(); ++i) {
      labels_[i].at = std::max(labels_[i].at, labels_[i - 1].at + label_height);
    }
    double limit = plot_.bottom() + 4;
    for (std::size_t i = labels_.size(); i-- > 0; limit = labels_[i].at - label_height) {
      labels_[i].at = std::min(labels_[i].at, limit);
    }
    for (const Label& label : labels_) {
      const double x = plot_.right() + 10, end = std::clamp(y_.at(label.y), plot_.y, plot_.bottom());
      const double from = std::min(x_.at(label.x), plot_.right());
      if (!label.entry.reference) {
        svg_.path(concat("M", pixels(from + 2), " ", pixels(end), "L", pixels(std::max(from + 2, plot_.right() + 2)),
                         " ", pixels(end), "L", pixels(x), " ", pixels(label.at)),
                  concat("leader stroke-", label.entry.colour));
      }
      legend_swatch(svg_, x, label.at, label.entry);
      svg_.text(x + 22, label.at + 4.5, label.entry.label, "label");
    }
  }

  std::string finish(double height) {
    if (left_out_ > 0) {
      height += 16;
      svg_.text(chart_margin, height - 8,
                concat(left_out_, left_out_ == 1 ? " value is" : " values are", " not drawn: infinite",
                       chart_.log_x || chart_.log_y ? ", or not above zero on a logarithmic axis" : ""),
                "tick");
      height += 4;
    }
    return svg_.document(chart_.title, description_, height, false);
  }

  const LineChart& chart_;
  Svg svg_;
  Extent x_extent_, y_extent_;
  Axis x_, y_;
  Box plot_;
  std::vector<int> colours_;
  std::vector<Label> labels_;
  bool beside_ = false;
  std::size_t left_out_ = 0;
  std::string description_;
};

}  // namespace

std::string line_chart_svg(const LineChart& chart) {
  check(chart);
  return LineDrawing(chart).svg();
}

}  // namespace satformer
