#include "report/page.h"

#include <cmath>
#include <cstdint>

#include "base/error.h"
#include "report/assets.h"
#include "report/base64.h"
#include "report/escape.h"
#include "report/palette.h"

namespace satformer {
namespace {

// The content security policy's name of a script: nothing but the two scripts of this program runs in the page.
std::string policy_hash(const Asset& script) {
  std::vector<std::uint8_t> bytes;
  for (std::size_t i = 0; i + 1 < script.sha256.size(); i += 2) {
    bytes.push_back(static_cast<std::uint8_t>(std::stoi(std::string(script.sha256.substr(i, 2)), nullptr, 16)));
  }
  return "'sha256-" + base64(bytes) + "'";
}

std::string element(const std::string& name, const std::string& text) {
  return text.empty() ? "" : concat("<", name, ">", escape_xml(text), "</", name, ">\n");
}

// The page has the rules of charts once, in variables that its switch of schemes changes.
std::string without_style(const std::string& svg) {
  const auto begin = svg.find("<style>"), end = svg.find("</style>\n");
  return begin == std::string::npos || end == std::string::npos ? svg : svg.substr(0, begin) + svg.substr(end + 9);
}

}  // namespace

Page::Page(std::string title, std::string subtitle) : title_(std::move(title)), subtitle_(std::move(subtitle)) {}

void Page::heading(const std::string& text) {
  headings_.push_back(text);
  body_ += concat("<h2 id=\"section-", headings_.size(), "\">", escape_xml(text), "</h2>\n");
}

void Page::subheading(const std::string& text) { body_ += element("h3", text); }

void Page::paragraph(const std::string& text) { body_ += element("p", text); }

void Page::code(const std::string& text) {
  // Line by line: escape_xml turns line feeds into spaces.
  std::string lines;
  for (std::size_t begin = 0; begin <= text.size();) {
    const auto end = std::min(text.find('\n', begin), text.size());
    lines += (begin == 0 ? "" : "\n") + escape_xml(text.substr(begin, end - begin));
    begin = end + 1;
  }
  body_ += "<pre class=\"scroll\" tabindex=\"0\"><code>" + lines + "</code></pre>\n";
}

void Page::figure(const std::string& svg, const std::string& caption) {
  body_ += concat("<figure><div class=\"scroll\" tabindex=\"0\">", without_style(svg), "</div>\n",
                  element("figcaption", caption), "</figure>\n");
}

void Page::table(const Table& table) {
  const std::string label = table.caption.empty() ? "Table" : escape_xml(table.caption);
  std::string html = concat("<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"", label,
                            "\">\n<table class=\"data\">\n", element("caption", table.caption), "<thead><tr>");
  for (const Column& column : table.columns) {
    html += concat("<th scope=\"col\"", column.numeric ? " class=\"number\"" : "", ">", escape_xml(column.name),
                   column.unit.empty() ? "" : concat(" <span class=\"unit\">", escape_xml(column.unit), "</span>"),
                   "</th>");
  }
  html += "</tr></thead>\n<tbody>\n";
  for (const std::vector<Cell>& row : table.rows) {
    if (row.size() != table.columns.size()) {
      fail(ExitCode::internal, "table '", table.caption, "': a row has ", row.size(), " cells, expected ",
           table.columns.size());
    }
    html += "<tr>";
    for (std::size_t c = 0; c < row.size(); ++c) {
      const Cell& cell = row[c];
      const std::string text = escape_xml(cell_text(cell));
      html += concat("<td", table.columns[c].numeric ? " class=\"number\"" : "");
      if (cell.value && std::isfinite(*cell.value)) {
        char value[40];
        std::snprintf(value, sizeof value, " data-value=\"%.17g\"", *cell.value);
        html += value;
      }
      html += concat(">", cell.best ? "<strong>" + text + "</strong>" : text);
      if (!cell.note.empty()) html += concat(" <span class=\"note\">", escape_xml(cell.note), "</span>");
      html += "</td>";
    }
    html += "</tr>\n";
  }
  body_ += html + "</tbody>\n</table></div>\n";
  for (const std::string& note : table.notes) body_ += concat("<p class=\"note\">", escape_xml(note), "</p>\n");
}

void Page::facts(const std::vector<std::pair<std::string, std::string>>& facts) {
  body_ += "<dl class=\"facts\">\n";
  for (const auto& [name, value] : facts) {
    body_ += concat("<div><dt>", escape_xml(name), "</dt><dd>", escape_xml(value), "</dd></div>\n");
  }
  body_ += "</dl>\n";
}

void Page::tokens(const TokenMap& map) {
  ++token_maps_;
  body_ +=
      concat("<section class=\"token-map\" aria-label=\"", escape_xml(map.title), "\">\n", element("h3", map.title),
             "<noscript><p>This map of tokens is drawn by JavaScript, which is off.</p></noscript>\n"
             "<script type=\"application/json\">",
             token_map_json(map), "</script>\n</section>\n");
}

std::string Page::html() const {
  const Asset page_script = asset("page.js"), token_script = asset("token_map.js");
  std::string contents;
  if (headings_.size() > 1) {
    contents = "<nav aria-label=\"Contents\"><ol>\n";
    for (std::size_t i = 0; i < headings_.size(); ++i) {
      contents += concat("<li><a href=\"#section-", i + 1, "\">", escape_xml(headings_[i]), "</a></li>\n");
    }
    contents += "</ol></nav>\n";
  }
  std::string policy =
      "default-src 'none'; base-uri 'none'; form-action 'none'; style-src 'unsafe-inline'; script-src ";
  policy += policy_hash(page_script);
  std::string css = concat(palette_css(), asset("page.css").text, chart_css());
  std::string scripts = concat("<script>", page_script.text, "</script>\n");
  if (token_maps_ > 0) {
    policy += " " + policy_hash(token_script);
    css += asset("token_map.css").text;
    scripts += concat("<script>", token_script.text, "</script>\n");
  }
  return concat("<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n",
                "<meta http-equiv=\"Content-Security-Policy\" content=\"", policy, "\">\n",
                "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>",
                escape_xml(title_), "</title>\n<style>\n", css,
                "</style>\n</head>\n<body>\n<a class=\"skip\" href=\"#content\">To the content</a>\n",
                "<header><div><h1>", escape_xml(title_), "</h1>\n", element("p", subtitle_), "</div></header>\n",
                contents, "<main id=\"content\">\n", body_, "</main>\n", scripts, "</body>\n</html>\n");
}

}  // namespace satformer
