// Horizontal bars as SVG, in colours that suit light and dark pages.
#pragma once

#include <string>
#include <vector>

namespace satformer {

struct Bar {
  std::string label;
  double value = 0;
  double low = 0, high = 0;  // ends of the whisker; equal: none
  std::string text;          // beside the bar; empty: the value
  bool faint = false;        // a bar to compare with
};

struct BarChart {
  std::string title, subtitle;
  std::vector<Bar> bars;
  double reference = 0;  // a dashed line at this value; 0: none
};

// A whole SVG document, 720 wide. Texts are escaped. Values must be finite and not negative.
std::string bar_chart_svg(const BarChart& chart);

// Escapes &, <, > and quotes for XML and HTML.
std::string escape_xml(const std::string& text);

}  // namespace satformer
