#include "report/bar_chart.h"

#include <gtest/gtest.h>

namespace satformer {
namespace {

TEST(BarChart, DrawsEveryBarAndEscapesTexts) {
  BarChart chart;
  chart.title = "a < b & \"c\"";
  chart.bars = {{"one", 2, 1.5, 2.5, "", false}, {"<two>", 1, 1, 1, "x & y", true}};
  chart.reference = 1;
  const std::string svg = bar_chart_svg(chart);
  const auto count = [&](const std::string& part) {
    int n = 0;
    for (auto at = svg.find(part); at != std::string::npos; at = svg.find(part, at + 1)) ++n;
    return n;
  };
  EXPECT_EQ(count("<rect class=\"bar\""), 1);
  EXPECT_EQ(count("<rect class=\"faint\""), 1);
  EXPECT_EQ(count("class=\"line\""), 3);
  EXPECT_EQ(count("class=\"reference\""), 1);
  EXPECT_EQ(count("a &lt; b &amp; &quot;c&quot;"), 2);
  EXPECT_EQ(count("&lt;two&gt;"), 1);
  EXPECT_EQ(count("x &amp; y"), 1);
  EXPECT_EQ(svg.find("<two>"), std::string::npos);
}

}  // namespace
}  // namespace satformer
