#include "report/bar_chart.h"

#include <algorithm>
#include <cstdio>

#include "base/error.h"
#include "report/escape.h"

namespace satformer {
namespace {

std::string number(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1f", value);
  return text;
}

std::string shown(double value) {
  char text[32];
  std::snprintf(text, sizeof text, value >= 100 ? "%.0f" : "%.3g", value);
  return text;
}

}  // namespace

std::string bar_chart_svg(const BarChart& chart) {
  constexpr double width = 720, label_width = 170, text_width = 190, row = 30, bar_height = 16;
  const double top = chart.subtitle.empty() ? 52 : 70;
  const double height = top + row * static_cast<double>(chart.bars.size()) + 16;
  double largest = chart.reference;
  for (const Bar& bar : chart.bars) largest = std::max({largest, bar.value, bar.high});
  const double plot = width - label_width - text_width, scale = largest > 0 ? plot / largest : 0;
  const auto x = [&](double value) { return number(label_width + value * scale); };
  std::string svg = concat("<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 ", number(width), " ",
                           number(height), "\" width=\"", number(width), "\" height=\"", number(height),
                           "\" role=\"img\" aria-label=\"", escape_xml(chart.title), "\">\n");
  svg +=
      "<style>\n"
      "text { font: 13px system-ui, sans-serif; fill: #1f2933; } .title { font-weight: 600; font-size: 15px; }\n"
      ".soft { fill: #66727f; paint-order: stroke; stroke: #ffffff; stroke-width: 3; } .bar { fill: #2f6fb0; } "
      ".faint { fill: #a9b8c6; } .paper { fill: #ffffff; }\n"
      ".line { stroke: #1f2933; stroke-width: 1.5; } .reference { stroke: #66727f; stroke-dasharray: 4 4; }\n"
      "@media (prefers-color-scheme: dark) { text { fill: #e6edf3; } .soft { fill: #9aa7b4; stroke: #14191f; } .bar "
      "{ fill: #5b9bd5; "
      "}\n"
      "  .faint { fill: #51606e; } .paper { fill: #14191f; } .line { stroke: #e6edf3; } .reference { stroke: "
      "#9aa7b4; } }\n"
      "</style>\n<rect class=\"paper\" width=\"100%\" height=\"100%\"/>\n";
  svg += concat("<text class=\"title\" x=\"16\" y=\"28\">", escape_xml(chart.title), "</text>\n");
  if (!chart.subtitle.empty()) {
    svg += concat("<text class=\"soft\" x=\"16\" y=\"48\">", escape_xml(chart.subtitle), "</text>\n");
  }
  double y = top;
  for (const Bar& bar : chart.bars) {
    const double middle = y + bar_height / 2;
    svg += concat("<text x=\"", number(label_width - 10), "\" y=\"", number(middle + 5), "\" text-anchor=\"end\">",
                  escape_xml(bar.label), "</text>\n");
    svg += concat("<rect class=\"", bar.faint ? "faint" : "bar", "\" x=\"", number(label_width), "\" y=\"", number(y),
                  "\" width=\"", number(bar.value * scale), "\" height=\"", number(bar_height), "\"/>\n");
    if (bar.high > bar.low) {
      svg += concat("<line class=\"line\" x1=\"", x(bar.low), "\" x2=\"", x(bar.high), "\" y1=\"", number(middle),
                    "\" y2=\"", number(middle), "\"/>\n");
      for (const double end : {bar.low, bar.high}) {
        svg += concat("<line class=\"line\" x1=\"", x(end), "\" x2=\"", x(end), "\" y1=\"", number(middle - 4),
                      "\" y2=\"", number(middle + 4), "\"/>\n");
      }
    }
    svg += concat("<text class=\"soft\" x=\"", number(label_width + std::max(bar.value, bar.high) * scale + 8),
                  "\" y=\"", number(middle + 5), "\">", escape_xml(bar.text.empty() ? shown(bar.value) : bar.text),
                  "</text>\n");
    y += row;
  }
  if (chart.reference > 0) {
    svg += concat("<line class=\"reference\" x1=\"", x(chart.reference), "\" x2=\"", x(chart.reference), "\" y1=\"",
                  number(top - 8), "\" y2=\"", number(y - row + bar_height + 8), "\"/>\n");
  }
  return svg + "</svg>\n";
}

}  // namespace satformer
