#include "report/palette.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <set>

namespace satformer {
namespace {

using Triple = std::array<double, 3>;

Triple linear(const std::string& hex) {
  Triple out{};
  for (std::size_t i = 0; i < 3; ++i) {
    const double c = std::stoi(hex.substr(1 + 2 * i, 2), nullptr, 16) / 255.0;
    out[i] = c <= 0.04045 ? c / 12.92 : std::pow((c + 0.055) / 1.055, 2.4);
  }
  return out;
}

double contrast(const std::string& a, const std::string& b) {
  const auto luminance = [](const Triple& c) { return 0.2126 * c[0] + 0.7152 * c[1] + 0.0722 * c[2]; };
  const double x = luminance(linear(a)), y = luminance(linear(b));
  return (std::max(x, y) + 0.05) / (std::min(x, y) + 0.05);
}

std::map<std::string, Colour> colours() {
  std::map<std::string, Colour> out;
  for (const Colour& colour : palette()) out[colour.name] = colour;
  return out;
}

// What a reader with full protanopia or deuteranopia sees (Machado, Oliveira and Fernandes 2009), as distances in
// Oklab.
Triple seen(const std::string& hex, const std::array<Triple, 3>& matrix) {
  const Triple c = linear(hex);
  Triple rgb{};
  for (std::size_t i = 0; i < 3; ++i) {
    rgb[i] = std::clamp(matrix[i][0] * c[0] + matrix[i][1] * c[1] + matrix[i][2] * c[2], 0.0, 1.0);
  }
  const double l = std::cbrt(0.41222147 * rgb[0] + 0.53633254 * rgb[1] + 0.05144599 * rgb[2]);
  const double m = std::cbrt(0.21190350 * rgb[0] + 0.68069955 * rgb[1] + 0.10739696 * rgb[2]);
  const double s = std::cbrt(0.08830246 * rgb[0] + 0.28171884 * rgb[1] + 0.62997870 * rgb[2]);
  return {0.21045426 * l + 0.79361779 * m - 0.00407205 * s, 1.97799850 * l - 2.42859221 * m + 0.45059371 * s,
          0.02590404 * l + 0.78277177 * m - 0.80867577 * s};
}

TEST(Palette, ArchitecturesKeepTheirColours) {
  std::set<int> all;
  for (const char* name :
       {"transformer", "resformer", "satformer", "denseformer", "muddformer", "hyperconnections"}) {
    all.insert(architecture_colour(name));
  }
  EXPECT_EQ(all.size(), 6U);
  EXPECT_EQ(all.count(-1), 0U);
  EXPECT_EQ(architecture_colour("SATFormer"), architecture_colour("satformer"));
  EXPECT_EQ(architecture_colour("satformer, per token"), architecture_colour("satformer"));
  EXPECT_EQ(architecture_colour("satformers"), -1);
  EXPECT_EQ(architecture_colour("vision transformer"), -1);
  EXPECT_EQ(architecture_colour(""), -1);
  SeriesColours given;
  EXPECT_EQ(given.of("satformer"), architecture_colour("satformer"));
  EXPECT_EQ(given.of("x"), given.of("x"));
  EXPECT_NE(given.of("x"), given.of("y"));
}

TEST(Palette, ContrastSufficesInBothSchemes) {
  const auto all = colours();
  const Colour& paper = all.at("paper");
  for (const char* text : {"ink", "soft", "accent"}) {
    EXPECT_GE(contrast(all.at(text).light, paper.light), 4.5) << text;
    EXPECT_GE(contrast(all.at(text).dark, paper.dark), 4.5) << text;
    EXPECT_GE(contrast(all.at(text).light, all.at("panel").light), 4.5) << text;
    EXPECT_GE(contrast(all.at(text).dark, all.at("panel").dark), 4.5) << text;
  }
  for (int i = 0; i < series_colours; ++i) {
    const Colour& series = all.at("series-" + std::to_string(i));
    EXPECT_GE(contrast(series.light, paper.light), 3) << i;
    EXPECT_GE(contrast(series.dark, paper.dark), 3) << i;
  }
  for (const ScaleKind kind : {ScaleKind::sequential, ScaleKind::diverging}) {
    for (int step = 0; step < scale_steps; ++step) {
      const Colour& cell = all.at(scale_class(kind, step));
      const Colour& text = all.at("on-" + cell.name);
      EXPECT_GE(contrast(text.light, cell.light), 4.5) << cell.name;
      EXPECT_GE(contrast(text.dark, cell.dark), 4.5) << cell.name;
    }
  }
}

TEST(Palette, ArchitecturesAreToldApartWithAnyColourVision) {
  const std::array<std::array<Triple, 3>, 4> matrices = {{
      {{{1, 0, 0}, {0, 1, 0}, {0, 0, 1}}},
      {{{0.152286, 1.052583, -0.204868}, {0.114503, 0.786281, 0.099216}, {-0.003882, -0.048116, 1.051998}}},
      {{{0.367322, 0.860646, -0.227968}, {0.280085, 0.672501, 0.047413}, {-0.011820, 0.042940, 0.968881}}},
      {{{1.255528, -0.076749, -0.178779}, {-0.078411, 0.930809, 0.147602}, {0.004733, 0.691367, 0.303900}}},
  }};
  const auto all = colours();
  for (const auto& matrix : matrices) {
    for (int i = 0; i < 6; ++i) {
      for (int j = 0; j < i; ++j) {
        for (const bool dark : {false, true}) {
          const Colour &a = all.at("series-" + std::to_string(i)), &b = all.at("series-" + std::to_string(j));
          const Triple x = seen(dark ? a.dark : a.light, matrix), y = seen(dark ? b.dark : b.light, matrix);
          EXPECT_GE(std::hypot(x[0] - y[0], x[1] - y[1], x[2] - y[2]), 0.075) << i << " " << j << " dark " << dark;
        }
      }
    }
  }
}

TEST(Palette, ScalesRiseEvenly) {
  const auto all = colours();
  for (const bool dark : {false, true}) {
    const Colour& paper = all.at("paper");
    double last = 0;
    for (int step = 0; step < scale_steps; ++step) {
      const Colour& cell = all.at(scale_class(ScaleKind::sequential, step));
      const double now = contrast(dark ? cell.dark : cell.light, dark ? paper.dark : paper.light);
      EXPECT_GT(now, last) << step;
      last = now;
    }
  }
  EXPECT_EQ(scale_step(0, 0, 1), 0);
  EXPECT_EQ(scale_step(0.5, 0, 1), 16);
  EXPECT_EQ(scale_step(7, 0, 1), 32);
  EXPECT_EQ(scale_step(0, -1e308, 1e308), 16);
}

TEST(Palette, StandaloneRulesNeedNoVariables) {
  const std::string css = standalone_chart_css(true);
  EXPECT_EQ(css.find("var("), std::string::npos);
  EXPECT_EQ(css.find_first_of("<&"), std::string::npos);
  EXPECT_NE(css.find("prefers-color-scheme: dark"), std::string::npos);
  for (const Colour& colour : palette()) {
    if (chart_css().find("var(--" + colour.name + ")") == std::string::npos) continue;
    EXPECT_NE(css.find(colour.light), std::string::npos) << colour.name;
    EXPECT_NE(css.find(colour.dark), std::string::npos) << colour.name;
  }
}

}  // namespace
}  // namespace satformer
