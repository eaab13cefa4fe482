#include "analysis/report.h"

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

void write_report(const AnalysisReport& report, const std::string& directory) {
  make_directories(directory);
  Json json = report.about;
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
