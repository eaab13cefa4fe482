#include "report/bar_chart.h"

#include <gtest/gtest.h>

#include <cmath>

#include "report/test_xml.h"

namespace satformer {
namespace {

// The number in an attribute of the first element that begins like this.
double attribute(const std::string& svg, const std::string& element, const std::string& name) {
  const auto at = svg.find(" " + name + "=\"", svg.find(element));
  return std::stod(svg.substr(at + name.size() + 3));
}

TEST(BarChart, DrawsEveryBarAndEscapesTexts) {
  BarChart chart;
  chart.title = "a < b & \"c\"";
  chart.bars = {{"one", 2, 1.5, 2.5, "", false}, {"<two>", 1, 1, 1, "x & y", true}};
  chart.reference = 1;
  const std::string svg = bar_chart_svg(chart);
  EXPECT_EQ(count_of(svg, "<rect class=\"bar\""), 1);
  EXPECT_EQ(count_of(svg, "<rect class=\"faint\""), 1);
  EXPECT_EQ(count_of(svg, "class=\"line\""), 3);
  EXPECT_EQ(count_of(svg, "class=\"reference\""), 1);
  EXPECT_EQ(count_of(svg, "a &lt; b &amp; &quot;c&quot;"), 2);
  EXPECT_EQ(count_of(svg, ">&lt;two&gt;<"), 1);
  EXPECT_EQ(count_of(svg, ">x &amp; y<"), 1);
  EXPECT_EQ(svg.find("<two>"), std::string::npos);
}

TEST(BarChart, NegativeBarsGoLeftFromZero) {
  BarChart chart;
  chart.bars = {{"up", 3}, {"down", -1, -1.5, -0.5, "", true}};
  const std::string svg = bar_chart_svg(chart);
  const double zero = attribute(svg, "<line class=\"axis\"", "x1");
  EXPECT_NEAR(attribute(svg, "<rect class=\"bar\"", "x"), zero, 0.11);
  const double x = attribute(svg, "<rect class=\"faint\"", "x"),
               width = attribute(svg, "<rect class=\"faint\"", "width");
  EXPECT_NEAR(x + width, zero, 0.11);
  EXPECT_NEAR(3 * width, attribute(svg, "<rect class=\"bar\"", "width"), 0.4);
  EXPECT_LT(attribute(svg, "<line class=\"line\"", "x1"), x);
}

TEST(BarChart, GroupsHaveHeadingsAndKeysColours) {
  BarChart chart;
  chart.bars = {{"a", 1, 0, 0, "", false, "first", "satformer"},
                {"b", 1, 0, 0, "", false, "first", "resformer"},
                {"c", std::nan(""), 0, 0, "", false, "second", "x"}};
  const std::string svg = bar_chart_svg(chart);
  EXPECT_EQ(count_of(svg, "class=\"heading\""), 2);
  EXPECT_EQ(count_of(svg, "<rect class=\"fill-2\""), 1);
  EXPECT_EQ(count_of(svg, "<rect class=\"fill-"), 2);
  EXPECT_EQ(count_of(svg, ">not available<"), 1);
}

}  // namespace
}  // namespace satformer
