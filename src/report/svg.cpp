#include "report/svg.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "base/error.h"
#include "base/unicode.h"
#include "report/escape.h"
#include "report/palette.h"
#include "report/table.h"

namespace satformer {
namespace {

std::string_view anchor_text(Anchor anchor) {
  switch (anchor) {
    case Anchor::middle:
      return " text-anchor=\"middle\"";
    case Anchor::end:
      return " text-anchor=\"end\"";
    case Anchor::start:
      break;
  }
  return "";
}

double character_width(char32_t c) {  // in units of the font's size
  if (c >= 0x80) {
    std::string one;
    append_utf8(one, c);
    const int columns = display_width(one);
    return columns == 0 ? 0 : columns == 2 ? 1.05 : 0.66;
  }
  const std::string_view narrow = "ijlI|.,:;'!", slim = " frt()[]{}/\\-\"", broad = "mwMW@%";
  const char letter = static_cast<char>(c);
  if (narrow.find(letter) != std::string_view::npos) return 0.34;
  if (slim.find(letter) != std::string_view::npos) return 0.42;
  if (broad.find(letter) != std::string_view::npos) return 0.97;
  return letter >= 'A' && letter <= 'Z' ? 0.74 : 0.64;
}

}  // namespace

std::string pixels(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1f", std::clamp(value, -1e5, 1e5));
  return text;
}

double text_width(std::string_view text, double size) {
  double width = 0;
  for (const char32_t c : code_points(text)) width += character_width(c);
  return width * size;
}

std::string fit_text(std::string_view text, double width, double size) {
  if (text_width(text, size) <= width) return std::string(text);
  double used = character_width(U'…') * size;
  std::string out;
  for (const char32_t c : code_points(text)) {
    used += character_width(c) * size;
    if (used > width) break;
    append_utf8(out, c);
  }
  return out + "…";
}

std::vector<std::string> wrap_text(std::string_view text, double width, double size) {
  std::vector<std::string> lines;
  for (const std::string& word : split_at_space(text)) {
    const bool joins = !lines.empty() && text_width(lines.back(), size) + text_width(" " + word, size) <= width;
    if (joins) {
      lines.back() += " " + word;
    } else {
      lines.push_back(fit_text(word, width, size));
    }
  }
  return lines;
}

void Svg::text(double x, double y, std::string_view text, std::string_view classes, Anchor anchor) {
  body_ += concat("<text", classes.empty() ? "" : " class=\"", classes, classes.empty() ? "" : "\"", " x=\"",
                  pixels(x), "\" y=\"", pixels(y), "\"", anchor_text(anchor), ">", escape_xml(text), "</text>\n");
}

void Svg::fitted_text(const Box& box, std::string_view text, std::string_view classes, Anchor anchor) {
  const double size = classes.find("tick") != std::string_view::npos ? 12 : 13;
  const std::string fitted = fit_text(text, box.width, size);
  const double x = anchor == Anchor::end ? box.right() : anchor == Anchor::middle ? box.x + box.width / 2 : box.x;
  if (fitted == text) return this->text(x, box.y, fitted, classes, anchor);
  body_ += "<g><title>" + escape_xml(text) + "</title>";
  this->text(x, box.y, fitted, classes, anchor);
  body_ += "</g>\n";
}

void Svg::turned_text(double x, double y, std::string_view text, std::string_view classes, Anchor anchor) {
  body_ += concat("<text class=\"", classes, "\" transform=\"translate(", pixels(x), " ", pixels(y),
                  ") rotate(-90)\"", anchor_text(anchor), ">", escape_xml(text), "</text>\n");
}

void Svg::line(double x1, double y1, double x2, double y2, std::string_view classes) {
  body_ += concat("<line class=\"", classes, "\" x1=\"", pixels(x1), "\" x2=\"", pixels(x2), "\" y1=\"", pixels(y1),
                  "\" y2=\"", pixels(y2), "\"/>\n");
}

void Svg::shape(std::string_view opening, std::string_view name, std::string_view tip) {
  body_ += opening;
  if (tip.empty()) {
    body_ += "/>\n";
  } else {
    body_ += concat("><title>", escape_xml(tip), "</title></", name, ">\n");
  }
}

void Svg::rect(const Box& box, std::string_view classes, std::string_view tip) {
  shape(concat("<rect class=\"", classes, "\" x=\"", pixels(box.x), "\" y=\"", pixels(box.y), "\" width=\"",
               pixels(std::max(0.0, box.width)), "\" height=\"", pixels(std::max(0.0, box.height)), "\""),
        "rect", tip);
}

void Svg::circle(double x, double y, double radius, std::string_view classes, std::string_view tip) {
  shape(concat("<circle class=\"", classes, "\" cx=\"", pixels(x), "\" cy=\"", pixels(y), "\" r=\"", pixels(radius),
               "\""),
        "circle", tip);
}

void Svg::path(std::string_view data, std::string_view classes) {
  body_ += concat("<path class=\"", classes, "\" d=\"", data, "\"/>\n");
}

void Svg::open_clip(const Box& box) {
  // An inner svg element cuts off what leaves it, and needs no id that could meet another figure's.
  const std::string x = pixels(box.x), y = pixels(box.y), width = pixels(box.width), height = pixels(box.height);
  body_ += concat("<svg x=\"", x, "\" y=\"", y, "\" width=\"", width, "\" height=\"", height, "\" viewBox=\"", x, " ",
                  y, " ", width, " ", height, "\">\n");
  open_.push_back("svg");
}

void Svg::open_group(std::string_view classes) {
  body_ += concat("<g class=\"", classes, "\">\n");
  open_.push_back("g");
}

void Svg::close() {
  body_ += concat("</", open_.back(), ">\n");
  open_.pop_back();
}

double Svg::heading(const std::string& title, const std::string& subtitle) {
  double y = 8;
  for (const std::string& line : wrap_text(title, chart_width - 2 * chart_margin, 16)) {
    text(chart_margin, y += 20, line, "title");
  }
  for (const std::string& line : wrap_text(subtitle, chart_width - 2 * chart_margin)) {
    text(chart_margin, y += 20, line, "soft");
  }
  return y;
}

std::string Svg::document(const std::string& title, const std::string& description, double height,
                          bool scales) const {
  const std::string w = pixels(chart_width), h = pixels(height);
  return concat("<svg class=\"chart\" xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 ", w, " ", h, "\" width=\"",
                w, "\" height=\"", h, "\" role=\"img\" aria-label=\"", escape_xml(title), "\">\n<desc>",
                escape_xml(description), "</desc>\n<style>\n", standalone_chart_css(scales),
                "</style>\n<rect class=\"paper\" width=\"100%\" height=\"100%\"/>\n", body_, "</svg>\n");
}

void legend_swatch(Svg& svg, double x, double y, const LegendEntry& entry) {
  if (entry.reference) {
    svg.line(x, y, x + 16, y, "reference");
  } else {
    svg.line(x, y, x + 16, y, concat("curve stroke-", entry.colour, entry.dashed ? " dashed" : ""));
  }
}

double legend(Svg& svg, double top, const std::vector<LegendEntry>& entries) {
  double x = chart_margin, y = top;
  for (const LegendEntry& entry : entries) {
    const double room = chart_width - 2 * chart_margin - 22;
    const double width = std::min(text_width(entry.label), room);
    if (x > chart_margin && x + 22 + width > chart_width - chart_margin) {
      x = chart_margin;
      y += 20;
    }
    legend_swatch(svg, x, y + 8, entry);
    svg.fitted_text({x + 22, y + 12.5, width + 1, 0}, entry.label, "label", Anchor::start);
    x += 22 + width + 22;
  }
  return entries.empty() ? y : y + 20;
}

}  // namespace satformer
