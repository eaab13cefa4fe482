#include "report/heat_map.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "base/error.h"
#include "report/axis.h"
#include "report/svg.h"
#include "report/table.h"

namespace satformer {
namespace {

constexpr std::size_t max_cells = 16384;

struct Range {
  double low = 0, high = 1;
};

// Short enough for a cell: a hundredth of the range shows.
std::string short_text(double value, const Range& range) {
  const int decimals = static_cast<int>(std::ceil(2 - std::log10(range.high - range.low) - 1e-9));
  if (decimals > 6 || std::abs(value) >= 1e5) return number_text(value);
  char text[32];
  std::snprintf(text, sizeof text, "%.*f", std::max(0, decimals), std::fabs(value));
  const bool zero = std::string_view(text).find_first_not_of("0.") == std::string_view::npos;
  return concat(value < 0 && !zero ? "−" : "", text);
}

Range range_of(const HeatMap& map) {
  Range range;
  bool any = false;
  for (const double value : map.values) {
    if (!drawable(value)) continue;
    range.low = any ? std::min(range.low, value) : value;
    range.high = any ? std::max(range.high, value) : value;
    any = true;
  }
  if (any && map.scale == ScaleKind::diverging) {
    range.high = std::max(std::abs(range.low), std::abs(range.high));
    range.low = -range.high;
  }
  range = {map.low.value_or(range.low), map.high.value_or(range.high)};
  if (!drawable(range.low) || !drawable(range.high)) {
    fail(ExitCode::internal, "heat map '", map.title, "': the ends of its scale are not finite");
  }
  if (range.low >= range.high) range.high = range.low + std::max(1.0, std::abs(range.low));
  return range;
}

class HeatMapDrawing {
 public:
  explicit HeatMapDrawing(const HeatMap& map) : map_(map), range_(range_of(map)) {}

  std::string svg() {
    const double top = svg_.heading(map_.title, map_.subtitle) + 12;
    if (map_.values.empty()) {
      svg_.text(chart_width / 2, top + 40, "no data", "soft", Anchor::middle);
      return svg_.document(map_.title, "no data", top + 70, true);
    }
    place(top);
    draw_column_labels();
    draw_rows();
    return svg_.document(map_.title,
                         concat(rows(), " rows, ", columns(), " columns, scale from ", number_text(range_.low),
                                " to ", number_text(range_.high)),
                         draw_key(), true);
  }

 private:
  std::size_t rows() const { return map_.row_labels.size(); }
  std::size_t columns() const { return map_.column_labels.size(); }

  void place(double top) {
    double label = 0, header = 0, widest_value = 0;
    for (const std::string& text : map_.row_labels) label = std::max(label, text_width(text, 12));
    for (const std::string& text : map_.column_labels) header = std::max(header, text_width(text, 12));
    for (const double value : map_.values) {
      if (drawable(value)) widest_value = std::max(widest_value, text_width(short_text(value, range_), 11));
    }
    label = std::min(label, 200.0);
    const double left = chart_margin + (map_.row_axis.empty() ? 0 : 22) + label + 8;
    const double room = chart_width - chart_margin - left;
    const double wanted = map_.show_values ? std::max(44.0, widest_value + 8) : 44;
    cell_width_ = std::min(room / static_cast<double>(columns()), wanted);
    cell_height_ = std::clamp(360 / static_cast<double>(rows()), 3.0, 26.0);
    values_fit_ = map_.show_values && widest_value + 4 <= cell_width_ && cell_height_ >= 15;
    upright_ = header + 6 > cell_width_ && header > 30;
    every_ = upright_ ? steps(15 / cell_width_) : steps((header + 6) / cell_width_);
    header_ = upright_ ? std::min(header, 140.0) + 8 : 20;
    const double height = cell_height_ * static_cast<double>(rows());
    plot_ = {left, top + (map_.column_axis.empty() ? 0 : 20) + header_, cell_width_ * static_cast<double>(columns()),
             height};
    label_ = label;
  }

  static std::size_t steps(double ratio) { return static_cast<std::size_t>(std::max(1.0, std::ceil(ratio))); }

  void draw_column_labels() {
    if (!map_.column_axis.empty()) {
      svg_.fitted_text({plot_.x, plot_.y - header_ - 6, chart_width - chart_margin - plot_.x, 0}, map_.column_axis,
                       "soft", Anchor::start);
    }
    for (std::size_t c = 0; c < columns(); c += every_) {
      const double middle = plot_.x + cell_width_ * (static_cast<double>(c) + 0.5);
      if (upright_) {
        svg_.turned_text(middle + 4, plot_.y - 6, fit_text(map_.column_labels[c], 140, 12), "tick", Anchor::start);
      } else {
        svg_.text(middle, plot_.y - 7, map_.column_labels[c], "tick", Anchor::middle);
      }
    }
  }

  void draw_rows() {
    const double gap = std::min(cell_width_, cell_height_) >= 10 ? 1 : 0;
    const std::size_t every_row = steps(13 / cell_height_);
    if (!map_.row_axis.empty()) {
      svg_.turned_text(chart_margin + 10, plot_.y + plot_.height / 2,
                       fit_text(map_.row_axis, std::max(60.0, plot_.height)), "soft", Anchor::middle);
    }
    for (std::size_t r = 0; r < rows(); r += every_row) {
      const double middle = plot_.y + cell_height_ * (static_cast<double>(r) + 0.5);
      svg_.fitted_text({plot_.x - 8 - label_, middle + 4, label_, 0}, map_.row_labels[r], "tick", Anchor::end);
    }
    svg_.open_group("cells");
    for (std::size_t r = 0; r < rows(); ++r) {
      for (std::size_t c = 0; c < columns(); ++c) draw_cell(r, c, gap);
    }
    svg_.close();
  }

  void draw_cell(std::size_t r, std::size_t c, double gap) {
    const double value = map_.values[r * columns() + c];
    // Without gaps the edges are on whole pixels, so that no paper shines through.
    const auto edge = [&](double start, double at) { return gap > 0 ? start + at : std::round(start + at); };
    const double x = edge(plot_.x, cell_width_ * static_cast<double>(c));
    const double y = edge(plot_.y, cell_height_ * static_cast<double>(r));
    const double right = edge(plot_.x, cell_width_ * static_cast<double>(c + 1));
    const double bottom = edge(plot_.y, cell_height_ * static_cast<double>(r + 1));
    const bool blank = !drawable(value);
    any_blank_ = any_blank_ || blank;
    const int step = blank ? 0 : scale_step(value, range_.low, range_.high);
    svg_.rect({x, y, right - x - gap, bottom - y - gap}, blank ? "blank" : scale_class(map_.scale, step),
              concat(map_.row_labels[r], ", ", map_.column_labels[c], ": ", blank ? "no value" : number_text(value)));
    if (values_fit_ && !blank) {
      svg_.text((x + right - gap) / 2, (y + bottom - gap) / 2 + 4, short_text(value, range_),
                concat("cell-text on-", scale_class(map_.scale, step)), Anchor::middle);
    }
  }

  double draw_key() {
    constexpr double width = 6, height = 10;
    const double y = plot_.bottom() + 16;
    double x = plot_.x;
    svg_.open_group("cells");
    for (int step = 0; step < scale_steps; ++step) {
      svg_.rect({x + width * step, y, width, height}, scale_class(map_.scale, step));
    }
    svg_.close();
    const double end = x + width * scale_steps;
    svg_.text(x, y + 26, number_text(range_.low), "tick", Anchor::start);
    svg_.text((x + end) / 2, y + 26, number_text(range_.low / 2 + range_.high / 2), "tick", Anchor::middle);
    svg_.text(end, y + 26, number_text(range_.high), "tick", Anchor::end);
    if (any_blank_) {
      svg_.rect({end + 24, y, 14, height}, "blank");
      svg_.text(end + 44, y + 10, "no value", "tick");
    }
    return y + 38;
  }

  const HeatMap& map_;
  Range range_;
  Svg svg_;
  Box plot_;
  double cell_width_ = 0, cell_height_ = 0, header_ = 0, label_ = 0;
  std::size_t every_ = 1;
  bool upright_ = false, values_fit_ = false, any_blank_ = false;
};

}  // namespace

std::string heat_map_svg(const HeatMap& map) {
  const std::size_t expected = map.row_labels.size() * map.column_labels.size();
  if (map.values.size() != expected || expected > max_cells) {
    fail(ExitCode::internal, "heat map '", map.title, "': ", map.values.size(), " values for ", map.row_labels.size(),
         " x ", map.column_labels.size(), " labels, expected one for each pair and at most ", max_cells);
  }
  return HeatMapDrawing(map).svg();
}

}  // namespace satformer
