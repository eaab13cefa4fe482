#include "analysis/report.h"

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <type_traits>

#include "io/file.h"
#include "report/page.h"

namespace satformer {

std::string report_html(const AnalysisReport& report) {
  Page page(report.title);
  page.facts(report.facts);
  for (const StudyResult& study : report.studies) {
    page.heading(study.title);
    for (const auto& element : study.elements) {
      std::visit(
          [&](const auto& e) {
            using E = std::decay_t<decltype(e)>;
            if constexpr (std::is_same_v<E, StudyResult::Paragraph>) {
              page.paragraph(e.text);
            } else if constexpr (std::is_same_v<E, StudyResult::Figure>) {
              page.figure(e.svg, e.caption);
            } else if constexpr (std::is_same_v<E, StudyResult::NamedTable>) {
              if (e.shown) page.table(e.table);
            } else {
              page.tokens(e);
            }
          },
          element);
    }
  }
  return page.html();
}

namespace {

// Tables that an earlier analysis left in the folder and this one does not write, by that one's analysis.json.
void remove_earlier_tables(const std::string& directory, const Json& tables) {
  const std::string path = directory + "/analysis.json";
  if (!std::filesystem::exists(path)) return;
  const Json earlier = Json::parse(read_file(path), nullptr, false);
  if (!earlier.is_object() || !earlier.contains("tables") || !earlier["tables"].is_array()) return;
  for (const Json& name : earlier["tables"]) {
    if (!name.is_string()) continue;
    const std::filesystem::path file(name.get<std::string>());
    if (file.filename() != file || file.extension() != ".csv") continue;
    std::error_code ignored;
    if (std::find(tables.begin(), tables.end(), name) == tables.end()) {
      std::filesystem::remove(std::filesystem::path(directory) / file, ignored);
    }
  }
}

}  // namespace

void write_report(const AnalysisReport& report, const std::string& directory) {
  make_directories(directory);
  Json json = report.about;
  json["tables"] = Json::array();
  for (const StudyResult& study : report.studies) {
    for (const auto& element : study.elements) {
      if (const auto* table = std::get_if<StudyResult::NamedTable>(&element)) json["tables"].push_back(table->file);
    }
  }
  remove_earlier_tables(directory, json["tables"]);
  for (const StudyResult& study : report.studies) {
    json["studies"][study.name] = study.json;
    for (const auto& element : study.elements) {
      if (const auto* table = std::get_if<StudyResult::NamedTable>(&element)) {
        write_file_atomic(directory + "/" + table->file, table_csv(table->table));
      }
    }
  }
  write_file_atomic(directory + "/analysis.html", report_html(report));
  // Texts that are no UTF-8 are written with replacement characters.
  write_file_atomic(directory + "/analysis.json", json.dump(1, ' ', false, Json::error_handler_t::replace) + "\n");
}

}  // namespace satformer
