#include "report/page.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>

#include "base/json.h"
#include "base/test_error.h"
#include "report/assets.h"
#include "report/bar_chart.h"
#include "report/heat_map.h"
#include "report/histogram.h"
#include "report/line_chart.h"
#include "report/scatter.h"
#include "report/test_xml.h"
#include "report/token_map.h"

namespace satformer {
namespace {

std::vector<std::uint16_t> decoded(const std::string& text) {
  const std::string digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string bytes;
  std::uint32_t bits = 0;
  int count = 0;
  for (const char c : text) {
    if (c == '=') break;
    bits = bits << 6 | static_cast<std::uint32_t>(digits.find(c));
    count += 6;
    if (count < 8) continue;
    count -= 8;
    bytes += static_cast<char>(bits >> count & 0xff);
  }
  std::vector<std::uint16_t> codes;
  for (std::size_t i = 0; i + 1 < bytes.size(); i += 2) {
    codes.push_back(static_cast<std::uint16_t>(static_cast<unsigned char>(bytes[i]) |
                                               static_cast<unsigned char>(bytes[i + 1]) << 8));
  }
  return codes;
}

TEST(TokenMap, ValuesComeBackWithinTheirPrecision) {
  constexpr double nan = std::numeric_limits<double>::quiet_NaN();
  const std::vector<std::vector<double>> cases = {{0, 1e-9, 0.5, 1, nan},
                                                  {-1, -1e-12, 0, 1e-12, 7},
                                                  {5, 5, 5, nan, 5},
                                                  {1000, 1000.001, 1000.002, 1000, 1000},
                                                  {0, 0, 0, 0, 0},
                                                  {nan, nan, nan, nan, nan},
                                                  {-3, -2, -1, -0.001, -0.5},
                                                  {1e300, -1e300, 0, 1, 1e299}};
  for (const auto& values : cases) {
    TokenMap map;
    map.tokens = {"a", "b", "c", "d", "e"};
    map.tracks = {{"t", "g", values, 0}};
    const Json json = parse_json(token_map_json(map), "map");
    const auto codes = decoded(json["values"].get<std::string>());
    const Json& scale = json["scales"][0];
    ASSERT_EQ(codes.size(), values.size());
    double low = 1e308, high = -1e308;
    for (const double value : values) {
      if (!std::isfinite(value)) continue;
      low = std::min(low, value);
      high = std::max(high, value);
    }
    for (std::size_t i = 0; i < values.size(); ++i) {
      if (!std::isfinite(values[i])) {
        EXPECT_EQ(codes[i], 0);
        continue;
      }
      ASSERT_GT(codes[i], 0);
      const double back = (scale["base"].get<double>() + codes[i] - 1) * scale["step"].get<double>();
      EXPECT_EQ(back == 0, values[i] == 0) << values[i];
      const double step = scale["step"].get<double>();
      EXPECT_LE(std::abs(back - values[i]), std::abs(values[i]) < step ? step : 0.5001 * step) << values[i];
      if (high > low) {
        EXPECT_LE(step, (high - low) / 65532 * 1.0001);
      }
    }
  }
}

TEST(TokenMap, RefusesWhatDoesNotFit) {
  TokenMap map;
  map.tokens = {"a"};
  map.tracks = {{"t", "g", {1, 2}, 0}};
  error_text([&] { token_map_json(map); }, ExitCode::internal);
  map.tracks = {{"t", "g", {1}, 1}};
  error_text([&] { token_map_json(map); }, ExitCode::internal);
  map.tracks.clear();
  map.tokens.resize(max_tokens + 1);
  error_text([&] { token_map_json(map); }, ExitCode::internal);
}

// A page with every element, like the reports of the commands.
Page sample() {
  Page page("Where SATFormer reads layer 0's values", "satformer-130m · validation text · 4,096 tokens");
  page.facts(
      {{"Parameters", "134.2 M"}, {"Architecture", "satformer"}, {"Text", "<validation> & more"}, {"Seed", "1"}});
  page.heading("Loss against tokens");
  page.paragraph("Six architectures, three seeds each; bands are the seeds' range.");
  LineChart lines{"Validation loss", "lower is better", "training tokens", "loss (nats per token)"};
  lines.log_x = true;
  const char* names[] = {"transformer", "resformer", "satformer", "denseformer", "muddformer", "hyperconnections"};
  for (int k = 0; k < 6; ++k) {
    Line line{names[k], {}, {}};
    for (int i = 1; i <= 3000; ++i) {
      const double y = 2.9 - 0.25 * k + 40 / std::pow(i + 10, 0.6) + 0.02 * std::sin(i * 12.9898 + k);
      line.xs.push_back(i * 1e6);
      line.ys.push_back(i > 600 && i < 700 && k == 0 ? std::nan("") : y);
      line.low.push_back(y - 0.04);
      line.high.push_back(y + 0.04);
    }
    lines.lines.push_back(line);
  }
  lines.references = {{3.0, "target"}};
  page.figure(line_chart_svg(lines), "Time to a loss of 3.0 is read off at the dashed line.");
  page.heading("Tasks");
  Table table{
      "Recall by distance", {{"model", false, ""}, {"accuracy", true, "%"}, {"tokens to target", true, "M"}}, {}, {}};
  for (int k = 0; k < 6; ++k) {
    table.rows.push_back({names[k], Cell("", 61.5 + 3 * (k * 7 % 6), "± 0.8", k == 5),
                          k == 0 ? Cell("> 3000") : Cell(900.0 - 50 * k)});
  }
  table.notes = {"Standard errors over documents."};
  page.table(table);
  BarChart bars{"Effect of removing gates", "change of perplexity, %; 95 % intervals", {}, 0};
  bars.bars = {{"zero", 4.2, 3.9, 4.6, "", false, "semantic tokens", ""},
               {"mean", 1.1, 0.7, 1.4, "", false, "semantic tokens", ""},
               {"zero", -0.6, -1.4, 0.2, "", false, "function words", ""},
               {"mean", -1.3, -1.8, -0.9, "", true, "function words", ""}};
  page.figure(bar_chart_svg(bars));
  page.heading("Gates");
  HeatMap heat{"Mean gate", "by layer and head", "layer", "head"};
  for (int layer = 1; layer < 12; ++layer) heat.row_labels.push_back(std::to_string(layer));
  for (int head = 0; head < 12; ++head) heat.column_labels.push_back(std::to_string(head));
  for (int i = 0; i < 132; ++i)
    heat.values.push_back(i == 40 ? std::nan("") : std::abs(std::sin(i * 0.37)) * (132 - i) / 132);
  heat.show_values = true;
  page.figure(heat_map_svg(heat));
  HeatMap likeness{"Correlation of heads", "", "", "", {}, {}, {}, ScaleKind::diverging, -1.0, 1.0};
  for (int i = 0; i < 48; ++i) {
    likeness.row_labels.push_back("layer " + std::to_string(i / 8) + ", head " + std::to_string(i % 8));
    for (int k = 0; k < 48; ++k) likeness.values.push_back(i == k ? 1 : std::cos(i * 0.7) * std::cos(k * 0.7));
  }
  likeness.column_labels = likeness.row_labels;
  page.figure(heat_map_svg(likeness));
  Histogram histogram{"Distribution of gates", "", "gate", "share of tokens"};
  for (int i = 0; i <= 40; ++i) histogram.edges.push_back(i / 40.0);
  histogram.series = {{"start", std::vector<double>(40)}, {"end", std::vector<double>(40)}};
  for (int i = 0; i < 40; ++i) {
    histogram.series[0].counts[static_cast<std::size_t>(i)] = std::exp(-0.02 * (i - 20) * (i - 20));
    histogram.series[1].counts[static_cast<std::size_t>(i)] = 1.2 * std::exp(-0.2 * i);
  }
  page.figure(histogram_svg(histogram));
  Scatter scatter{"Quality and throughput", "error bars: 95 %; dashed: nothing is better in both",
                  "tokens per second", "loss"};
  scatter.front = true;
  scatter.better_x = Better::higher;
  for (int k = 0; k < 6; ++k) {
    const double x = 41000 - 5000 * k + 900 * (k % 2), y = 3.2 - 0.03 * k + 0.05 * (k == 3);
    scatter.points.push_back({names[k], x, y, x - 700, x + 700, y - 0.01, y + 0.01});
  }
  page.figure(scatter_svg(scatter));
  page.heading("Tokens");
  TokenMap map;
  map.title = "One prompt";
  map.scales = {{"gate", ScaleKind::sequential, 0.0, 1.0}, {"loss (nats)", ScaleKind::sequential, {}, {}}};
  const char* words[] = {" the", " capital", " of",        " France", " is",   " Paris",
                         ".",    "\n",       " </script>", " 宽度",   " naïve"};
  for (int t = 0; t < 4096; ++t) map.tokens.push_back(words[(t * 7 + t / 11) % 11]);
  for (int layer = 0; layer < 12; ++layer) {
    for (int head = 0; head < 8; ++head) {
      TokenTrack track{"head " + std::to_string(head), "layer " + std::to_string(layer), {}, 0};
      for (int t = 0; t < 4096; ++t) {
        const double wave = std::sin(t * 0.013 * (head + 1) + layer) * std::sin(t * 1.7 + layer * head);
        track.values.push_back(t % 97 == 5 ? std::nan("") : std::max(0.0, wave));
      }
      map.tracks.push_back(track);
    }
  }
  page.tokens(map);
  page.code("satformer analyze --model runs/a --data <text>");
  return page;
}

TEST(Page, IsSelfContainedAndEscaped) {
  const std::string html = sample().html();
  if (const char* path = std::getenv("SATFORMER_REPORT_SAMPLE")) std::ofstream(path) << html;
  EXPECT_EQ(html.find("http"), html.find("http-equiv"));  // no address but the SVG's name space
  for (auto at = html.find("http"); at != std::string::npos; at = html.find("http", at + 1)) {
    const bool known =
        html.compare(at, 10, "http-equiv") == 0 || html.compare(at, 26, "http://www.w3.org/2000/svg") == 0;
    EXPECT_TRUE(known) << html.substr(at, 60);
  }
  EXPECT_EQ(html.find(" src="), std::string::npos);
  EXPECT_EQ(count_of(html, "<script"), 3);
  EXPECT_EQ(count_of(html, "</script>"), 3);
  EXPECT_EQ(count_of(html, "<style>"), 1);
  EXPECT_EQ(count_of(html, "<h2 id=\"section-"), 4);
  EXPECT_EQ(count_of(html, "<a href=\"#section-"), 4);
  EXPECT_NE(html.find("&lt;validation&gt; &amp; more"), std::string::npos);
  EXPECT_NE(html.find("default-src 'none'"), std::string::npos);
  EXPECT_EQ(count_of(html, "'sha256-"), 2);
  // Numbers of the table are there without the script.
  EXPECT_NE(html.find("data-value=\"61.5\">61.5 <span class=\"note\">± 0.8</span>"), std::string::npos);
  EXPECT_NE(html.find("<strong>76.5</strong>"), std::string::npos);
}

TEST(Page, HostileTextsStayText) {
  const std::string bad = "</script><img src=x onerror=alert(1)>\"'&\xff";
  Page page(bad, bad);
  page.heading(bad);
  page.heading(bad);
  page.subheading(bad);
  page.paragraph(bad);
  page.facts({{bad, bad}});
  page.code(bad + "\n" + bad);
  page.table({bad, {{bad, false, bad}}, {{Cell(bad, 1, bad, true)}}, {bad}});
  TokenMap map;
  map.title = bad;
  map.tokens = {bad};
  map.tracks = {{bad, bad, {1}, 0}};
  map.scales[0].name = bad;
  page.tokens(map);
  const std::string html = page.html();
  EXPECT_EQ(html.find("<img"), std::string::npos);
  EXPECT_EQ(html.find('\xff'), std::string::npos);
  EXPECT_EQ(count_of(html, "</script>"), 3);
  // What stands in the body is well-formed: every tag closes where it should.
  const auto begin = html.find("<main"), end = html.find("</main>") + 7;
  EXPECT_EQ(XmlCheck::problem(html.substr(begin, end - begin)), "");
}

TEST(Page, ScriptsEqualTheirHashes) {
  for (const char* name : {"page.js", "token_map.js"}) {
    const Asset script = asset(name);
    EXPECT_EQ(script.sha256.size(), 64U);
    EXPECT_EQ(script.text.find("</"), std::string::npos);
    EXPECT_NE(sample().html().find(std::string("<script>") + std::string(script.text) + "</script>"),
              std::string::npos);
  }
  error_text([] { asset("none.js"); }, ExitCode::internal);
}

}  // namespace
}  // namespace satformer
