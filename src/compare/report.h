// A comparison as tables, figures and one page.
#pragma once

#include <string>
#include <vector>

#include "compare/summary.h"
#include "report/table.h"

namespace satformer {

// The tables, by the name of their CSV file.
struct NamedTable {
  std::string name;  // "results", "target", "tasks", "speed", "sizes", "reported"
  Table table;
};
std::vector<NamedTable> comparison_tables(const Comparison& comparison);

struct NamedFigure {
  std::string name;  // of its SVG file
  std::string svg, caption;
  std::string group;  // title of its group; "" for all
};
std::vector<NamedFigure> comparison_figures(const Comparison& comparison);

// Sentences that say what the comparison shows and does not show.
std::vector<std::string> comparison_findings(const Comparison& comparison);

// Every run's figures, one row a run; and every point of every curve.
std::string runs_csv(const Comparison& comparison);
std::string curves_csv(const Comparison& comparison);

// Writes report.html, report.md, report.json, tables/*.csv, figures/*.svg into the comparison's folder. `command` is
// shown as what made it.
void write_report(const Comparison& comparison, const std::string& command);

}  // namespace satformer
