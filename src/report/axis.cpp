#include "report/axis.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

namespace satformer {
namespace {

constexpr int x_tick_count = 7, y_tick_count = 6;

std::string formatted(const char* format, int decimals, double value) {
  char text[48];
  std::snprintf(text, sizeof text, format, decimals, value);
  return text;
}

// Decimals that tell multiples of the step apart.
int decimals_of(double step) {
  for (int decimals = 0; decimals < 8; ++decimals) {
    const double scaled = step * std::pow(10, decimals);
    if (std::abs(scaled - std::round(scaled)) < 1e-6 * scaled) return decimals;
  }
  return 8;
}

// `largest` chooses the unit, so that the labels of an axis share it.
std::string tick_label(double value, double step, double largest) {
  if (value == 0) return "0";
  if (value < 0) return "−" + tick_label(-value, step, largest);
  const struct {
    double size;
    const char* sign;
  } units[] = {{1e12, "T"}, {1e9, "B"}, {1e6, "M"}, {1e3, "k"}};
  if (largest >= 1e16 || largest < 1e-3 || step < 1e-7 * largest) {
    char text[32];
    const int digits = std::clamp(static_cast<int>(std::ceil(std::log10(largest / step))) + 1, 1, 15);
    std::snprintf(text, sizeof text, "%.*g", digits, value);
    return text;
  }
  if (largest >= 1e4) {
    for (const auto& unit : units) {
      if (largest >= unit.size) {
        return formatted("%.*f", decimals_of(step / unit.size), value / unit.size) + unit.sign;
      }
    }
  }
  return formatted("%.*f", decimals_of(step), value);
}

std::vector<Tick> linear_ticks(const Axis& axis, int count) {
  const double raw = (axis.high - axis.low) / count;
  const double power = std::pow(10, std::floor(std::log10(raw)));
  double step = 10 * power;
  for (const double nice : {1.0, 2.0, 5.0}) {
    if (nice * power >= raw * (1 - 1e-9)) {
      step = nice * power;
      break;
    }
  }
  std::vector<Tick> ticks;
  const double first = std::ceil(axis.low / step - 1e-6), largest = std::max(std::abs(axis.low), std::abs(axis.high));
  for (int k = 0; k <= 2 * count; ++k) {
    const double value = (first + k) * step;
    if (value > axis.high + 1e-6 * step) break;
    ticks.push_back({value, tick_label(value, step, largest)});
  }
  return ticks;
}

std::vector<Tick> log_ticks(const Axis& axis, int count) {
  const int first = static_cast<int>(std::ceil(std::log10(axis.low) - 1e-9));
  const int last = static_cast<int>(std::floor(std::log10(axis.high) + 1e-9));
  std::vector<Tick> ticks;
  if (last - first >= 2) {
    const int every = (last - first) / count + 1;
    for (int power = first; power <= last; power += every) {
      const double value = std::pow(10, power);
      ticks.push_back({value, tick_label(value, value, value)});
    }
    return ticks;
  }
  for (int power = first - 1; power <= last; ++power) {
    for (const double nice : {1.0, 2.0, 5.0}) {
      const double value = nice * std::pow(10, power);
      if (value >= axis.low * (1 - 1e-9) && value <= axis.high * (1 + 1e-9)) {
        ticks.push_back({value, tick_label(value, value, value)});
      }
    }
  }
  return ticks.size() >= 3 ? ticks : linear_ticks(axis, count);
}

}  // namespace

double Axis::at(double value) const {
  const double share =
      log ? (std::log(value) - std::log(low)) / (std::log(high) - std::log(low)) : (value - low) / (high - low);
  return from + share * (to - from);
}

bool drawable(double value, bool log) { return log ? value >= 1e-150 && value <= 1e150 : std::abs(value) <= 1e300; }

void Extent::add(double value) {
  low_ = empty_ ? value : std::min(low_, value);
  high_ = empty_ ? value : std::max(high_, value);
  empty_ = false;
}

std::pair<double, double> Extent::range(double pad) const {
  if (empty_) return log_ ? std::pair{1.0, 10.0} : std::pair{0.0, 1.0};
  if (log_) {
    const double ratio = std::max(std::pow(high_ / low_, pad), high_ / low_ < 1 + 1e-6 ? 1.5 : 1.0);
    return {low_ / ratio, high_ * ratio};
  }
  const double largest = std::max(std::abs(low_), std::abs(high_)), width = high_ - low_;
  if (width <= 1e-9 * largest || width < 1e-280) {
    const double around = largest < 1e-280 ? 1 : 0.1 * largest;
    return {low_ - around, high_ + around};
  }
  return {low_ - pad * width, high_ + pad * width};
}

std::vector<Tick> axis_ticks(const Axis& axis, int count) {
  return axis.log ? log_ticks(axis, count) : linear_ticks(axis, count);
}

double frame_left(const Axis& y, const std::string& y_label) {
  double widest = 0;
  for (const Tick& tick : axis_ticks(y, y_tick_count)) widest = std::max(widest, text_width(tick.label, 12));
  return chart_margin + widest + 8 + (y_label.empty() ? 0 : 22);
}

double frame_below(const std::string& x_label) { return x_label.empty() ? 24 : 46; }

void draw_frame(Svg& svg, const Box& plot, const Axis& x, const Axis& y, const std::string& x_label,
                const std::string& y_label) {
  for (const Tick& tick : axis_ticks(y, y_tick_count)) {
    svg.line(plot.x, y.at(tick.value), plot.right(), y.at(tick.value), "grid");
    svg.text(plot.x - 8, y.at(tick.value) + 4, tick.label, "tick", Anchor::end);
  }
  std::vector<Tick> ticks = axis_ticks(x, x_tick_count);
  for (int count = x_tick_count - 1; count > 1; --count) {  // fewer until the labels have room
    double needed = 0;
    for (const Tick& tick : ticks) needed += text_width(tick.label, 12) + 10;
    if (needed <= plot.width) break;
    ticks = axis_ticks(x, count);
  }
  svg.line(plot.x, plot.bottom(), plot.right(), plot.bottom(), "axis");
  double used = -1e9;  // right end of the last label
  for (const Tick& tick : ticks) {
    const double at = x.at(tick.value), half = text_width(tick.label, 12) / 2;
    svg.line(at, plot.bottom(), at, plot.bottom() + 4, "axis");
    if (at - half < used + 4) continue;
    svg.text(at, plot.bottom() + 18, tick.label, "tick", Anchor::middle);
    used = at + half;
  }
  if (!x_label.empty()) {
    svg.fitted_text({plot.x, plot.bottom() + 38, plot.width, 0}, x_label, "soft", Anchor::middle);
  }
  if (!y_label.empty()) {
    svg.turned_text(chart_margin + 10, plot.y + plot.height / 2, fit_text(y_label, plot.height), "soft",
                    Anchor::middle);
  }
}

}  // namespace satformer
