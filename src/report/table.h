// Tables: one structure written as CSV, Markdown, terminal text and (report/page.h) HTML.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace satformer {

struct Column {
  std::string name = {};
  bool numeric = false;   // right-aligned
  std::string unit = {};  // shown behind the name
};

struct Cell {
  std::string text = {};             // what is shown; empty: the value in four significant digits
  std::optional<double> value = {};  // what CSV holds and what is sorted by; not finite counts as none
  std::string note = {};             // shown behind the text, e.g. "± 0.3"
  bool best = false;                 // emphasised

  Cell() = default;
  Cell(std::string shown) : text(std::move(shown)) {}  // NOLINT(google-explicit-constructor): rows are lists of cells
  Cell(const char* shown) : text(shown) {}             // NOLINT(google-explicit-constructor)
  Cell(double number) : value(number) {}               // NOLINT(google-explicit-constructor)
  Cell(std::string shown, double number, std::string remark = {}, bool is_best = false)
      : text(std::move(shown)), value(number), note(std::move(remark)), best(is_best) {}
};

struct Table {
  std::string caption = {};
  std::vector<Column> columns = {};
  std::vector<std::vector<Cell>> rows = {};  // as many cells as columns, or Error(internal)
  std::vector<std::string> notes = {};       // below the table
};

std::string cell_text(const Cell& cell);  // text, or the formatted value, without the note; "–" if there is neither
std::string number_text(double value);    // four significant digits, without trailing zeros; "–" if not finite

std::string csv_field(const std::string& text);  // RFC 4180: quoted where it must be

// RFC 4180 with a header line and "\r\n" ends: raw values in the shortest form that reads back equal, else the text.
// A column of which any cell has a note is followed by one named "NAME note". Caption and notes are left out.
std::string table_csv(const Table& table);

// GitHub's Markdown: caption, table, notes. Best cells are bold; characters with a meaning are escaped.
std::string table_markdown(const Table& table);

// Aligned for a terminal by display width (wide characters two columns, combining marks none). Best cells carry a
// "*".
std::string table_text(const Table& table);

// Columns that a terminal needs for a UTF-8 text.
int display_width(std::string_view text);

}  // namespace satformer
