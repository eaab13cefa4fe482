// Horizontal bars as SVG, in colours that suit light and dark pages.
#pragma once

#include <string>
#include <vector>

namespace satformer {

struct Bar {
  std::string label = {};
  double value = 0;
  double low = 0, high = 0;  // ends of the whisker; equal: none
  std::string text = {};     // beside the bar; empty: the value
  bool faint = false;        // a bar to compare with
  std::string group = {};    // bars in a row with the same group stand under its name
  std::string colour = {};   // an architecture or any other key of a series colour; empty: the usual one
};

struct BarChart {
  std::string title = {}, subtitle = {};
  std::vector<Bar> bars = {};
  double reference = 0;  // a dashed line at this value; 0: none
};

// A whole SVG document, 720 wide. Texts are escaped. Bars begin at zero and go left below it. A value that is not
// finite has no bar, and "not available" for its text if that is empty; a whisker with such an end is left out.
std::string bar_chart_svg(const BarChart& chart);

}  // namespace satformer
