// A matrix as coloured cells with a key, as SVG. For thousands of tokens: report/token_map.h.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "report/palette.h"

namespace satformer {

struct HeatMap {
  std::string title = {}, subtitle = {};
  std::string row_axis = {}, column_axis = {};  // names of the axes
  std::vector<std::string> row_labels = {}, column_labels = {};
  std::vector<double> values = {};  // rows x columns, row-major; not finite: blank
  ScaleKind scale = ScaleKind::sequential;
  std::optional<double> low = {}, high = {};  // ends of the scale; unset: of the values, around zero if diverging
  bool show_values = false;                   // in the cells, where they fit
};

// A whole SVG document, 720 wide. Values outside low and high have the colours of the ends. Error(internal) unless
// there is a value for every row and column label, at most 16,384. Every cell names its row, column and value when
// pointed at.
std::string heat_map_svg(const HeatMap& map);

}  // namespace satformer
