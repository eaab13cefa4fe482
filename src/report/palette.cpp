#include "report/palette.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>
#include <cstdio>
#include <cstdlib>

#include "base/error.h"
#include "report/assets.h"

namespace satformer {
namespace {

constexpr std::array architectures = {"transformer", "resformer",  "satformer",
                                      "denseformer", "muddformer", "hyperconnections"};

// Stops of the scales, evenly spaced; between them colours are mixed in Oklab.
constexpr std::array sequential_light = {"#f1f5fa", "#b5d3ea", "#5aa2d0", "#1f6bad", "#0a2c63"};
constexpr std::array sequential_dark = {"#1b242e", "#1f466f", "#2d7bb5", "#72bfe6", "#e6f7ff"};
constexpr std::array diverging_light = {"#084383", "#66a3d3", "#f3f3f3", "#e79a5f", "#983600"};
constexpr std::array diverging_dark = {"#8ccbff", "#2f6ca6", "#20272f", "#a65a22", "#ffb582"};

using Triple = std::array<double, 3>;

Triple linear_rgb(const std::string& hex) {
  Triple out{};
  for (std::size_t i = 0; i < 3; ++i) {
    const double c = static_cast<double>(std::strtol(hex.substr(1 + 2 * i, 2).c_str(), nullptr, 16)) / 255;
    out[i] = c <= 0.04045 ? c / 12.92 : std::pow((c + 0.055) / 1.055, 2.4);
  }
  return out;
}

Triple oklab(const std::string& hex) {
  const auto [r, g, b] = linear_rgb(hex);
  const double l = std::cbrt(0.4122214708 * r + 0.5363325363 * g + 0.0514459929 * b);
  const double m = std::cbrt(0.2119034982 * r + 0.6806995451 * g + 0.1073969566 * b);
  const double s = std::cbrt(0.0883024619 * r + 0.2817188376 * g + 0.6299787005 * b);
  return {0.2104542553 * l + 0.7936177850 * m - 0.0040720468 * s,
          1.9779984951 * l - 2.4285922050 * m + 0.4505937099 * s,
          0.0259040371 * l + 0.7827717662 * m - 0.8086757660 * s};
}

std::string hex_of_oklab(const Triple& lab) {
  const auto cube = [](double x) { return x * x * x; };
  const double l = cube(lab[0] + 0.3963377774 * lab[1] + 0.2158037573 * lab[2]);
  const double m = cube(lab[0] - 0.1055613458 * lab[1] - 0.0638541728 * lab[2]);
  const double s = cube(lab[0] - 0.0894841775 * lab[1] - 1.2914855480 * lab[2]);
  const Triple rgb = {4.0767416621 * l - 3.3077115913 * m + 0.2309699292 * s,
                      -1.2684380046 * l + 2.6097574011 * m - 0.3413193965 * s,
                      -0.0041960863 * l - 0.7034186147 * m + 1.7076147010 * s};
  std::array<int, 3> bytes{};
  for (std::size_t i = 0; i < 3; ++i) {
    const double c = std::clamp(rgb[i], 0.0, 1.0);
    bytes[i] =
        static_cast<int>(std::lround(255 * (c <= 0.0031308 ? 12.92 * c : 1.055 * std::pow(c, 1 / 2.4) - 0.055)));
  }
  char text[8];
  std::snprintf(text, sizeof text, "#%02x%02x%02x", bytes[0], bytes[1], bytes[2]);
  return text;
}

std::string mixed(const std::array<const char*, 5>& stops, int step) {
  const double at = 4.0 * step / (scale_steps - 1);
  const std::size_t i = std::min<std::size_t>(static_cast<std::size_t>(at), 3);
  const double share = at - static_cast<double>(i);
  const Triple a = oklab(stops[i]), b = oklab(stops[i + 1]);
  Triple lab{};
  for (std::size_t k = 0; k < 3; ++k) lab[k] = a[k] + share * (b[k] - a[k]);
  return hex_of_oklab(lab);
}

double luminance(const std::string& hex) {
  const auto [r, g, b] = linear_rgb(hex);
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
}

double contrast(const std::string& a, const std::string& b) {
  const double x = luminance(a), y = luminance(b);
  return (std::max(x, y) + 0.05) / (std::min(x, y) + 0.05);
}

std::vector<Colour> named_colours() {
  return {
      {"ink", "#1b2530", "#e7edf3"},      {"soft", "#56626f", "#a3afbb"},     {"paper", "#ffffff", "#12171d"},
      {"panel", "#f5f7fa", "#1a2129"},    {"grid", "#dde3e9", "#2b343d"},     {"accent", "#1260a8", "#7fbcf5"},
      {"blank", "#ddd6cc", "#3d3832"},    {"faint", "#a9b8c6", "#51606e"},    {"bar", "#2f6fb0", "#5b9bd5"},
      {"series-0", "#5a5e66", "#676b77"}, {"series-1", "#2c6fad", "#648fcd"}, {"series-2", "#cc4400", "#ff8a50"},
      {"series-3", "#5c9d84", "#a3eebf"}, {"series-4", "#4f0468", "#d5adfd"}, {"series-5", "#60420b", "#a56e04"},
      {"series-6", "#d6578f", "#ff9ec7"}, {"series-7", "#0e7c8a", "#5fb8c9"},
  };
}

std::string replace_variables(std::string_view css, bool dark) {
  std::map<std::string, std::string, std::less<>> values;
  for (const Colour& colour : palette()) values[colour.name] = dark ? colour.dark : colour.light;
  std::string out;
  for (;;) {
    const auto begin = css.find("var(--");
    if (begin == std::string_view::npos) return out += css;
    const auto end = css.find(')', begin);
    out += css.substr(0, begin);
    const auto value = values.find(css.substr(begin + 6, end - begin - 6));
    if (value == values.end()) {
      fail(ExitCode::internal, "chart.css: no colour ", css.substr(begin, end - begin + 1), " in the palette");
    }
    out += value->second;
    css.remove_prefix(end + 1);
  }
}

std::string scale_rules() {
  std::string css;
  for (const ScaleKind kind : {ScaleKind::sequential, ScaleKind::diverging}) {
    for (int step = 0; step < scale_steps; ++step) {
      const std::string name = scale_class(kind, step);
      css += concat(".chart .", name, "{fill:var(--", name, ")}.chart .on-", name, "{fill:var(--on-", name, ")}\n");
    }
  }
  return css;
}

}  // namespace

int architecture_colour(std::string_view name) {
  for (std::size_t i = 0; i < architectures.size(); ++i) {
    const std::string_view known = architectures[i];
    if (name.size() < known.size()) continue;
    const bool same = std::equal(known.begin(), known.end(), name.begin(),
                                 [](char a, char b) { return a == std::tolower(static_cast<unsigned char>(b)); });
    if (!same) continue;
    if (name.size() == known.size()) return static_cast<int>(i);
    const auto next = static_cast<unsigned char>(name[known.size()]);
    if (next < 0x80 && !std::isalpha(next)) return static_cast<int>(i);
  }
  return -1;
}

int SeriesColours::of(std::string_view key) {
  if (const int fixed = architecture_colour(key); fixed >= 0) return fixed;
  if (const auto found = given_.find(key); found != given_.end()) return found->second;
  // Beside architectures the two colours that none of them has come first; alone the order starts at a strong blue.
  constexpr std::array order = {1, 2, 3, 4, 5, 6, 7, 0};
  const int colour = order[given_.size() % order.size()];
  given_.emplace(key, colour);
  return colour;
}

std::vector<Colour> palette() {
  std::vector<Colour> colours = named_colours();
  for (const ScaleKind kind : {ScaleKind::sequential, ScaleKind::diverging}) {
    const bool sequential = kind == ScaleKind::sequential;
    for (int step = 0; step < scale_steps; ++step) {
      const std::string light = mixed(sequential ? sequential_light : diverging_light, step);
      const std::string dark = mixed(sequential ? sequential_dark : diverging_dark, step);
      const auto text = [](const std::string& cell) {
        return contrast("#000000", cell) >= contrast("#ffffff", cell) ? "#000000" : "#ffffff";
      };
      colours.push_back({scale_class(kind, step), light, dark});
      colours.push_back({"on-" + scale_class(kind, step), text(light), text(dark)});
    }
  }
  return colours;
}

int scale_step(double value, double low, double high) {
  const double share = (std::clamp(value, low, high) / 2 - low / 2) / (high / 2 - low / 2);  // halves: no overflow
  return std::clamp(static_cast<int>(std::lround(share * (scale_steps - 1))), 0, scale_steps - 1);
}

std::string scale_class(ScaleKind kind, int step) {
  return concat(kind == ScaleKind::sequential ? "sequential-" : "diverging-", step);
}

std::string palette_css() {
  std::string light, dark;
  for (const Colour& colour : palette()) {
    light += concat("--", colour.name, ":", colour.light, ";");
    dark += concat("--", colour.name, ":", colour.dark, ";");
  }
  light += "color-scheme:light;";
  dark += "color-scheme:dark;";
  return concat(":root{", light, "}\n@media screen and (prefers-color-scheme:dark){:root:not([data-theme=light]){",
                dark, "}}\n@media screen{:root[data-theme=dark]{", dark, "}}\n");
}

std::string chart_css() { return concat(asset("chart.css").text, scale_rules()); }

std::string standalone_chart_css(bool scales) {
  const std::string css = scales ? chart_css() : std::string(asset("chart.css").text);
  return concat(replace_variables(css, false), "@media (prefers-color-scheme: dark) {\n",
                replace_variables(css, true), "}\n");
}

}  // namespace satformer
