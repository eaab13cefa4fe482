// One HTML file that holds a report: no network, no other files. Light, dark, narrow, printed, by keyboard, and
// without JavaScript all but the token maps.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "report/table.h"
#include "report/token_map.h"

namespace satformer {

class Page {
 public:
  explicit Page(std::string title, std::string subtitle = {});

  // In the order of the calls. Texts are plain and get escaped.
  void heading(const std::string& text);     // level 2, in the list of contents
  void subheading(const std::string& text);  // level 3
  void paragraph(const std::string& text);
  void figure(const std::string& svg, const std::string& caption = {});  // an SVG made by this folder's functions
  void table(const Table& table);                                        // can be sorted by each column
  void tokens(const TokenMap& map);
  void facts(const std::vector<std::pair<std::string, std::string>>& facts);  // names and values
  void code(const std::string& text);                                         // a command line, as it is

  // A browser loads the page again after so many seconds; 0: never.
  void refresh(int seconds) { refresh_ = seconds; }

  std::string html() const;  // the whole document

 private:
  std::string title_, subtitle_, body_;
  std::vector<std::string> headings_;
  int token_maps_ = 0, refresh_ = 0;
};

}  // namespace satformer
