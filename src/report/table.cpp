#include "report/table.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>

#include "base/error.h"
#include "base/unicode.h"

namespace satformer {
namespace {

void check(const Table& table) {
  for (std::size_t r = 0; r < table.rows.size(); ++r) {
    if (table.rows[r].size() == table.columns.size()) continue;
    fail(ExitCode::internal, "table '", table.caption, "': row ", r, " has ", table.rows[r].size(),
         " cells, expected ", table.columns.size());
  }
}

bool has_value(const Cell& cell) { return cell.value && std::isfinite(*cell.value); }

std::string heading(const Column& column) {
  return column.unit.empty() ? column.name : concat(column.name, " (", column.unit, ")");
}

std::string raw(const Cell& cell) {
  if (!has_value(cell)) return cell.text;
  char text[32];
  return {text, std::to_chars(text, text + sizeof text, *cell.value).ptr};
}

std::string markdown(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == '\n' || c == '\r') {
      out += ' ';
    } else if (c == '<') {
      out += "&lt;";
    } else if (c == '&') {
      out += "&amp;";
    } else {
      if (std::string_view("|*_`[]\\~").find(c) != std::string_view::npos) out += '\\';
      out += c;
    }
  }
  return out;
}

// One line, without characters that would move a terminal's cursor.
std::string plain(const std::string& text) {
  std::string out;
  for (const char32_t c : code_points(text)) append_utf8(out, c < 0x20 || (c >= 0x7f && c < 0xa0) ? U' ' : c);
  return out;
}

std::string with_note(const Cell& cell) {
  return cell.note.empty() ? cell_text(cell) : concat(cell_text(cell), " ", cell.note);
}

std::string padded(const std::string& text, int width, bool right) {
  const std::string space(static_cast<std::size_t>(std::max(0, width - display_width(text))), ' ');
  return right ? space + text : text + space;
}

bool between(char32_t c, const auto& ranges) {
  return std::any_of(std::begin(ranges), std::end(ranges),
                     [&](const auto& range) { return c >= range[0] && c <= range[1]; });
}

int columns_of(char32_t c) {
  static constexpr char32_t none[][2] = {
      {0x0300, 0x036f}, {0x0483, 0x0489}, {0x0591, 0x05bd}, {0x0610, 0x061a},  {0x064b, 0x065f}, {0x0900, 0x0902},
      {0x093c, 0x093c}, {0x0941, 0x0948}, {0x094d, 0x094d}, {0x0e31, 0x0e31},  {0x0e34, 0x0e3a}, {0x0e47, 0x0e4e},
      {0x1ab0, 0x1aff}, {0x1dc0, 0x1dff}, {0x200b, 0x200f}, {0x202a, 0x202e},  {0x2060, 0x2064}, {0x20d0, 0x20ff},
      {0xfe00, 0xfe0f}, {0xfe20, 0xfe2f}, {0xfeff, 0xfeff}, {0xe0100, 0xe01ef}};
  static constexpr char32_t wide[][2] = {
      {0x1100, 0x115f},   {0x231a, 0x231b},  {0x23e9, 0x23ec}, {0x25fd, 0x25fe},   {0x2614, 0x2615},
      {0x26a1, 0x26a1},   {0x2705, 0x2705},  {0x274c, 0x274c}, {0x2753, 0x2755},   {0x2757, 0x2757},
      {0x2e80, 0x303e},   {0x3041, 0xa4cf},  {0xa960, 0xa97c}, {0xac00, 0xd7a3},   {0xf900, 0xfaff},
      {0xfe30, 0xfe6f},   {0xff00, 0xff60},  {0xffe0, 0xffe6}, {0x1f300, 0x1f64f}, {0x1f680, 0x1f6ff},
      {0x1f900, 0x1f9ff}, {0x20000, 0x3fffd}};
  return between(c, none) ? 0 : between(c, wide) ? 2 : 1;
}

}  // namespace

int display_width(std::string_view text) {
  int width = 0;
  for (const char32_t c : code_points(text)) width += columns_of(c);
  return width;
}

std::string number_text(double value) {
  if (!std::isfinite(value)) return "–";
  char text[32];
  std::snprintf(text, sizeof text, "%.4g", value);
  std::string out = text;
  const double size = std::abs(value);
  if (size >= 9999.5 && size < 1e15) {  // whole numbers rather than 1.234e+04
    std::snprintf(text, sizeof text, "%.0f", value);
    out = text;
  }
  if (out == "-0") out = "0";
  if (out.front() == '-') out.replace(0, 1, "−");
  return out;
}

std::string cell_text(const Cell& cell) {
  if (!cell.text.empty()) return cell.text;
  return has_value(cell) ? number_text(*cell.value) : "–";
}

std::string csv_field(const std::string& text) {
  if (text.find_first_of(",\"\r\n") == std::string::npos) return text;
  std::string quoted = "\"";
  for (const char c : text) {
    if (c == '"') quoted += '"';
    quoted += c;
  }
  return quoted + '"';
}

std::string table_csv(const Table& table) {
  check(table);
  const std::size_t n = table.columns.size();
  std::vector<bool> noted(n);
  for (const auto& row : table.rows) {
    for (std::size_t c = 0; c < n; ++c) noted[c] = noted[c] || !row[c].note.empty();
  }
  std::string out;
  const auto line = [&](const auto& field, const auto& note) {
    std::string fields;
    for (std::size_t c = 0; c < n; ++c) {
      fields += concat(c == 0 ? "" : ",", csv_field(field(c)));
      if (noted[c]) fields += "," + csv_field(note(c));
    }
    out += fields + "\r\n";
  };
  line([&](std::size_t c) { return heading(table.columns[c]); },
       [&](std::size_t c) { return table.columns[c].name + " note"; });
  for (const auto& row : table.rows) {
    line([&](std::size_t c) { return raw(row[c]); }, [&](std::size_t c) { return row[c].note; });
  }
  return out;
}

std::string table_markdown(const Table& table) {
  check(table);
  std::string out;
  if (!table.caption.empty()) out += markdown(table.caption) + "\n\n";
  std::string rule = "|";
  out += "|";
  for (const Column& column : table.columns) {
    out += concat(" ", markdown(heading(column)), " |");
    rule += column.numeric ? " ---: |" : " --- |";
  }
  out += "\n" + rule + "\n";
  for (const auto& row : table.rows) {
    out += "|";
    for (const Cell& cell : row) {
      const std::string text = markdown(cell_text(cell));
      out +=
          concat(" ", cell.best ? "**" + text + "**" : text, cell.note.empty() ? "" : " ", markdown(cell.note), " |");
    }
    out += "\n";
  }
  for (const std::string& note : table.notes) out += concat("\n", markdown(note), "\n");
  return out;
}

std::string table_text(const Table& table) {
  check(table);
  const std::size_t n = table.columns.size();
  std::vector<std::vector<std::string>> lines(1);
  for (const Column& column : table.columns) lines[0].push_back(plain(heading(column)));
  std::vector<bool> starred(n);  // the other cells of such a column keep the place of the star free
  for (const auto& row : table.rows) {
    for (std::size_t c = 0; c < n; ++c) starred[c] = starred[c] || row[c].best;
  }
  for (const auto& row : table.rows) {
    auto& line = lines.emplace_back();
    for (std::size_t c = 0; c < n; ++c) {
      line.push_back(plain(with_note(row[c])) + (row[c].best ? "*" : starred[c] ? " " : ""));
    }
  }
  std::vector<int> widths(n);
  for (const auto& line : lines) {
    for (std::size_t c = 0; c < n; ++c) widths[c] = std::max(widths[c], display_width(line[c]));
  }
  std::string out = table.caption.empty() ? "" : plain(table.caption) + "\n";
  for (std::size_t r = 0; r < lines.size(); ++r) {
    std::string text;
    for (std::size_t c = 0; c < n; ++c) {
      text += (c == 0 ? "" : "  ") + padded(lines[r][c], widths[c], table.columns[c].numeric);
    }
    text.erase(text.find_last_not_of(' ') + 1);
    out += text + "\n";
    if (r > 0) continue;
    for (std::size_t c = 0; c < n; ++c) {
      out += c == 0 ? "" : "  ";
      for (int i = 0; i < widths[c]; ++i) out += "─";
    }
    out += "\n";
  }
  for (const std::string& note : table.notes) out += plain(note) + "\n";
  return out;
}

}  // namespace satformer
