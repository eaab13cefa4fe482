// Properties that every chart has whatever it is given: well-formed, finite coordinates, texts escaped.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

#include "base/test_error.h"
#include "report/bar_chart.h"
#include "report/heat_map.h"
#include "report/histogram.h"
#include "report/line_chart.h"
#include "report/scatter.h"
#include "report/test_xml.h"

namespace satformer {
namespace {

constexpr double nan = std::numeric_limits<double>::quiet_NaN(), infinity = std::numeric_limits<double>::infinity();

void expect_sound(const std::string& svg) {
  ASSERT_EQ(XmlCheck::problem(svg), "");
  for (const char* name : {" x=\"", " y=\"", " x1=\"", " x2=\"", " y1=\"", " y2=\"", " cx=\"", " cy=\"", " width=\"",
                           " height=\"", " viewBox=\"", " d=\""}) {
    for (auto at = svg.find(name); at != std::string::npos; at = svg.find(name, at + 1)) {
      const auto begin = svg.find('"', at) + 1;
      const std::string value = svg.substr(begin, svg.find('"', begin) - begin);
      ASSERT_EQ(value.find_first_not_of("0123456789.- MLHVZ%"), std::string::npos) << name << value;
    }
  }
}

// Random texts and numbers, the awkward ones often.
class Chance {
 public:
  explicit Chance(unsigned seed) : random_(seed) {}
  std::size_t below(std::size_t n) { return random_() % n; }
  bool coin() { return below(2) == 0; }
  double number() {
    constexpr double awkward[] = {0, -0.0, 1, -1, nan, infinity, -infinity, 1e308, -1e308, 5e-324, 1e-12, 1e16};
    if (below(4) == 0) return awkward[below(std::size(awkward))];
    return std::normal_distribution<>()(random_) * std::pow(10, static_cast<double>(below(9)) - 4);
  }
  std::vector<double> numbers(std::size_t n) {
    std::vector<double> out(n);
    for (double& value : out) value = number();
    return out;
  }
  std::string text() {
    constexpr const char* pieces[] = {"<b>",  "&amp;", "\"",        "'", "]]>", "\xff",
                                      "\x01", "宽",    "satformer", " ", "\n",  "e\u0301"};
    std::string out;
    for (std::size_t i = below(8); i > 0; --i) out += pieces[below(std::size(pieces))];
    return below(20) == 0 ? std::string(300, 'w') : out;
  }

 private:
  std::mt19937 random_;
};

TEST(Charts, AnyInputGivesASoundPicture) {
  for (unsigned seed = 0; seed < 120; ++seed) {
    SCOPED_TRACE(seed);
    Chance chance(seed);
    LineChart lines;
    lines.title = chance.text();
    lines.subtitle = chance.text();
    lines.x_label = chance.text();
    lines.y_label = chance.text();
    lines.log_x = chance.coin();
    lines.log_y = chance.coin();
    for (std::size_t i = chance.below(30); i > 0; --i) {
      const std::size_t n = chance.below(40);
      Line line{chance.text(), chance.numbers(n), chance.numbers(n), {}, {},
                chance.coin(), chance.text(),     chance.coin()};
      if (chance.coin()) {
        line.low = chance.numbers(n);
        line.high = chance.numbers(n);
      }
      lines.lines.push_back(line);
    }
    for (std::size_t i = chance.below(3); i > 0; --i) lines.references.push_back({chance.number(), chance.text()});
    if (chance.coin()) lines.y_range = {0.25, 3};
    expect_sound(line_chart_svg(lines));

    BarChart bars{chance.text(), chance.text(), {}, chance.number()};
    for (std::size_t i = chance.below(12); i > 0; --i) {
      bars.bars.push_back({chance.text(), chance.number(), chance.number(), chance.number(), chance.text(),
                           chance.coin(), chance.coin() ? chance.text() : "", chance.text()});
    }
    expect_sound(bar_chart_svg(bars));

    HeatMap map;
    map.title = chance.text();
    map.row_axis = chance.text();
    map.column_axis = chance.text();
    for (std::size_t i = chance.below(20); i > 0; --i) map.row_labels.push_back(chance.text());
    for (std::size_t i = chance.below(20); i > 0; --i) map.column_labels.push_back(chance.text());
    map.values = chance.numbers(map.row_labels.size() * map.column_labels.size());
    map.scale = chance.coin() ? ScaleKind::diverging : ScaleKind::sequential;
    map.show_values = chance.coin();
    expect_sound(heat_map_svg(map));

    Scatter scatter;
    scatter.title = chance.text();
    scatter.log_x = chance.coin();
    scatter.front = chance.coin();
    scatter.better_x = chance.coin() ? Better::higher : Better::lower;
    for (std::size_t i = chance.below(15); i > 0; --i) {
      ScatterPoint point{chance.text(), chance.number(), chance.number(), {}, {}, {}, {}, chance.text()};
      if (chance.coin()) point.x_low = chance.number();
      if (chance.coin()) point.y_high = chance.number();
      scatter.points.push_back(point);
    }
    expect_sound(scatter_svg(scatter));
  }
}

TEST(LineChart, LabelsNeverOverlap) {
  for (std::size_t count = 1; count <= 40; ++count) {
    LineChart chart;
    for (std::size_t i = 0; i < count; ++i) {
      chart.lines.push_back({"model " + std::to_string(i), {0, 1}, {1, 1 + 1e-3 * static_cast<double>(i % 3)}});
    }
    const std::string svg = line_chart_svg(chart);
    std::vector<std::pair<double, double>> places;  // y, x
    for (auto at = svg.find("<text class=\"label\""); at != std::string::npos;
         at = svg.find("<text class=\"label\"", at + 1)) {
      const auto attribute = [&](const char* name) { return std::stod(svg.substr(svg.find(name, at) + 4)); };
      places.emplace_back(attribute(" y=\""), attribute(" x=\""));
    }
    ASSERT_EQ(places.size(), count);
    std::sort(places.begin(), places.end());
    for (std::size_t i = 1; i < count; ++i) {
      const bool other_row = places[i].first - places[i - 1].first >= 15;
      const bool other_column =
          places[i].first == places[i - 1].first && places[i].second - places[i - 1].second >= 80;
      ASSERT_TRUE(other_row || other_column) << count << " lines, label " << i;
    }
  }
}

TEST(LineChart, GapsAreGapsAndSinglePointsAreSeen) {
  LineChart chart;
  Line line{"a", {}, {}};
  for (int i = 0; i < 100; ++i) {
    line.xs.push_back(i);
    line.ys.push_back(i == 40 || i == 42 ? nan : i);
  }
  chart.lines = {line};
  const std::string svg = line_chart_svg(chart);
  EXPECT_EQ(count_of(svg, "<path class=\"curve"), 2);
  EXPECT_EQ(count_of(svg, "<circle"), 1);
  EXPECT_EQ(svg.find("not drawn"), std::string::npos);
  chart.lines[0].ys[3] = infinity;
  EXPECT_NE(line_chart_svg(chart).find("1 value is not drawn"), std::string::npos);
  chart.log_y = true;  // y = 0 at the first point
  EXPECT_NE(line_chart_svg(chart).find("2 values are not drawn"), std::string::npos);
}

TEST(LineChart, ManyPointsStaySmallWithTheirPeak) {
  LineChart chart;
  Line line{"loss", {}, {}};
  for (int i = 0; i < 200000; ++i) {
    line.xs.push_back(i);
    line.ys.push_back(i == 123456 ? 9 : 1 + 0.1 * std::sin(i));
  }
  chart.lines = {line};
  const std::string svg = line_chart_svg(chart);
  EXPECT_LT(svg.size(), 60000U);
  // The axis ends 5 % above the peak; the curve's highest point is there.
  const auto begin = svg.find(" d=\"", svg.find("<path class=\"curve"));
  const std::string path = svg.substr(begin, svg.find('"', begin + 4) - begin);
  double highest = 1e9, lowest = 0;
  for (auto at = path.find(' ', 2); at != std::string::npos; at = path.find(' ', at + 1)) {
    highest = std::min(highest, std::stod(path.substr(at + 1)));
    lowest = std::max(lowest, std::stod(path.substr(at + 1)));
  }
  EXPECT_NEAR(lowest - highest, 300 / 1.1, 1);
}

TEST(LineChart, RefusesNumbersThatDoNotFit) {
  LineChart chart;
  chart.lines = {{"a", {1, 2}, {1}}};
  EXPECT_NE(error_text([&] { line_chart_svg(chart); }, ExitCode::internal).find("'a' has 2 x, 1 y"),
            std::string::npos);
  chart.lines = {{"a", {1}, {1}, {1}, {}}};
  error_text([&] { line_chart_svg(chart); }, ExitCode::internal);
  chart.lines.clear();
  EXPECT_NE(line_chart_svg(chart).find("no data"), std::string::npos);
  chart.y_range = {1, 1};
  error_text([&] { line_chart_svg(chart); }, ExitCode::internal);
}

TEST(HeatMap, ColoursFollowValues) {
  HeatMap map{"m", "", "layer", "head", {"0", "1"}, {"a", "b", "c"}, {0, 0.5, 1, nan, 2, -3}};
  map.low = 0;
  map.high = 1;
  map.show_values = true;
  const std::string svg = heat_map_svg(map);
  const auto cell = [&](const std::string& colour, const std::string& tip) {
    const auto at = svg.find("<title>" + tip + "</title>");
    ASSERT_NE(at, std::string::npos) << tip;
    const auto begin = svg.rfind("class=\"", at) + 7;
    EXPECT_EQ(svg.substr(begin, svg.find('"', begin) - begin), colour) << tip;
  };
  cell("sequential-0", "0, a: 0");
  cell("sequential-16", "0, b: 0.5");
  cell("sequential-32", "0, c: 1");
  cell("blank", "1, a: no value");
  cell("sequential-32", "1, b: 2");
  cell("sequential-0", "1, c: −3");
  EXPECT_EQ(count_of(svg, "class=\"cell-text"), 5);
  EXPECT_EQ(count_of(svg, "class=\"cell-text on-sequential-32\""), 2);
  map.values.pop_back();
  error_text([&] { heat_map_svg(map); }, ExitCode::internal);
}

TEST(HeatMap, ADivergingScaleIsCentredOnZero) {
  HeatMap map{"m", "", "", "", {"r"}, {"a", "b", "c"}, {-1, 0, 4}, ScaleKind::diverging};
  const std::string svg = heat_map_svg(map);
  EXPECT_NE(svg.find("class=\"diverging-12\""), std::string::npos);
  EXPECT_EQ(count_of(svg, "class=\"diverging-16\""), 2);  // the cell and the key
  EXPECT_NE(svg.find(">−4<"), std::string::npos);
}

TEST(Histogram, SharesAddUp) {
  const std::vector<double> values = {-5, 0, 0.5, 1, 1.5, 2, 9, nan, infinity}, edges = {0, 1, 2};
  EXPECT_EQ(bin_shares(values, edges), (std::vector<double>{3.0 / 7, 4.0 / 7}));
  EXPECT_EQ(bin_shares({}, edges), (std::vector<double>{0, 0}));
  const std::vector<double> falling = {1, 0};
  error_text([&] { bin_shares(values, falling); }, ExitCode::internal);
  Histogram histogram{"h", "", "gate", "share", edges, {{"a", {0.25, 0.75}, ""}, {"b", {0, 1}, ""}}};
  expect_sound(histogram_svg(histogram));
  EXPECT_EQ(count_of(histogram_svg(histogram), "<path class=\"band"), 2);
  histogram.log_y = true;
  expect_sound(histogram_svg(histogram));
  histogram.series[0].counts.pop_back();
  error_text([&] { histogram_svg(histogram); }, ExitCode::internal);
  histogram.series[0].counts = {1, -1};
  error_text([&] { histogram_svg(histogram); }, ExitCode::internal);
}

TEST(Scatter, FrontIsWhatNothingBeats) {
  std::vector<ScatterPoint> points;
  for (const auto& [x, y] : {std::pair{1.0, 5.0}, {2.0, 3.0}, {3.0, 4.0}, {4.0, 1.0}, {nan, 0.0}, {2.0, 3.0}}) {
    points.push_back({"p", x, y, {}, {}, {}, {}, ""});
  }
  EXPECT_EQ(pareto_front(points, Better::lower, Better::lower), (std::vector<std::size_t>{0, 1, 5, 3}));
  EXPECT_EQ(pareto_front(points, Better::higher, Better::higher), (std::vector<std::size_t>{0, 2, 3}));
  EXPECT_EQ(pareto_front(points, Better::higher, Better::lower), (std::vector<std::size_t>{3}));
}

TEST(Scatter, PointsWithoutAPlaceAreNamed) {
  Scatter scatter;
  scatter.points = {{"good", 1, 1, {}, {}, {}, {}, ""}, {"lost <one>", nan, 1, {}, {}, {}, {}, ""}};
  EXPECT_NE(scatter_svg(scatter).find("not drawn, without a value: lost &lt;one&gt;"), std::string::npos);
}

}  // namespace
}  // namespace satformer
