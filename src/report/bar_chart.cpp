#include "report/bar_chart.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "base/error.h"
#include "report/axis.h"
#include "report/palette.h"
#include "report/svg.h"

namespace satformer {
namespace {

std::string shown(double value) {
  char text[32];
  std::snprintf(text, sizeof text, std::abs(value) >= 100 && std::abs(value) < 1e7 ? "%.0f" : "%.3g", value);
  return text;
}

std::string beside(const Bar& bar) {
  if (!bar.text.empty()) return bar.text;
  return std::isfinite(bar.value) ? shown(bar.value) : "not available";
}

bool has_whisker(const Bar& bar) {
  return drawable(bar.value) && drawable(bar.low) && drawable(bar.high) && bar.high > bar.low;
}

}  // namespace

std::string bar_chart_svg(const BarChart& chart) {
  constexpr double row = 30, bar_height = 16;
  double label_width = 170, text_room = 190;
  const double reference = drawable(chart.reference) ? chart.reference : 0;
  double lowest = std::min(0.0, reference), highest = std::max(0.0, reference);
  std::string description;
  for (const Bar& bar : chart.bars) {
    label_width = std::max(label_width, text_width(bar.label) + 10 + chart_margin);
    text_room = std::max(text_room, text_width(beside(bar)) + 8 + chart_margin);
    description += concat(description.empty() ? "" : "; ", bar.label, ": ", beside(bar));
    if (!drawable(bar.value)) continue;
    lowest = std::min(lowest, bar.value);
    highest = std::max(highest, bar.value);
    if (!has_whisker(bar)) continue;
    lowest = std::min(lowest, bar.low);
    highest = std::max(highest, bar.high);
  }
  label_width = std::min(label_width, 280.0);
  text_room = std::min(text_room, 260.0);
  const double plot = chart_width - label_width - text_room;
  const double range = highest / 2 - lowest / 2;  // halves: no overflow
  const auto x = [&](double value) {
    return label_width + (range > 0 ? plot * ((value / 2 - lowest / 2) / range) : 0);
  };
  Svg svg;
  const double top = svg.heading(chart.title, chart.subtitle) + (chart.subtitle.empty() ? 24 : 22);
  double y = top;
  SeriesColours colours;
  const std::string* group = nullptr;
  for (const Bar& bar : chart.bars) {
    if (!bar.group.empty() && (!group || *group != bar.group)) {
      if (group) y += 6;
      svg.fitted_text({chart_margin, y + 13, chart_width - 2 * chart_margin, 0}, bar.group, "heading", Anchor::start);
      y += 26;
    }
    group = &bar.group;
    const double middle = y + bar_height / 2;
    svg.fitted_text({chart_margin, middle + 5, label_width - 10 - chart_margin, 0}, bar.label, "label", Anchor::end);
    double end = x(0);
    if (drawable(bar.value)) {
      const std::string classes = bar.faint            ? "faint"
                                  : bar.colour.empty() ? "bar"
                                                       : concat("fill-", colours.of(bar.colour));
      svg.rect({x(std::min(bar.value, 0.0)), y, std::abs(x(bar.value) - x(0)), bar_height}, classes);
      end = std::max(end, x(bar.value));
    }
    if (has_whisker(bar)) {
      svg.line(x(bar.low), middle, x(bar.high), middle, "line");
      for (const double at : {bar.low, bar.high}) svg.line(x(at), middle - 4, x(at), middle + 4, "line");
      end = std::max(end, x(bar.high));
    }
    svg.fitted_text({end + 8, middle + 5, chart_width - end - 8 - 4, 0}, beside(bar), "soft halo", Anchor::start);
    y += row;
  }
  const double bottom = y - row + bar_height + 8;
  if (lowest < 0) svg.line(x(0), top - 8, x(0), bottom, "axis");
  if (reference != 0) svg.line(x(reference), top - 8, x(reference), bottom, "reference");
  return svg.document(chart.title, description, y + 16, false);
}

}  // namespace satformer
