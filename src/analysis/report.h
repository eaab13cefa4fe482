// The files of an analysis: analysis.json, a CSV for each table, analysis.html.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "analysis/study.h"

namespace satformer {

struct AnalysisReport {
  std::string title;
  Json about = Json::object();                             // model, data, options
  std::vector<std::pair<std::string, std::string>> facts;  // the same for the page
  std::vector<StudyResult> studies;
};

// Each file is written whole or not at all; analysis.json is the last.
void write_report(const AnalysisReport& report, const std::string& directory);
std::string report_html(const AnalysisReport& report);

}  // namespace satformer
