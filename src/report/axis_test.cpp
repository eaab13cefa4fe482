#include "report/axis.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <set>

namespace satformer {
namespace {

TEST(Axis, TicksAreFewDistinctAndInside) {
  std::mt19937 random(2);
  std::uniform_real_distribution<> exponent(-140, 140), share(-1, 1);
  for (int round = 0; round < 3000; ++round) {
    const bool log = round % 2 == 1;
    Extent extent(log);
    for (int i = 0; i < 1 + round % 3; ++i) {
      const double size = std::pow(10, exponent(random) / (round % 5 == 0 ? 1 : 30));
      extent.add(log ? size : share(random) * size);
    }
    const auto [low, high] = extent.range(0.05);
    ASSERT_TRUE(std::isfinite(low) && std::isfinite(high) && low < high) << low << " " << high;
    const Axis axis{low, high, log, 0, 100};
    const std::vector<Tick> ticks = axis_ticks(axis, 6);
    std::set<std::string> labels;
    ASSERT_GE(ticks.size(), 2U) << low << " to " << high << (log ? " log" : "");
    ASSERT_LE(ticks.size(), 13U) << low << " to " << high << (log ? " log" : "");
    for (const Tick& tick : ticks) {
      labels.insert(tick.label);
      ASSERT_GE(axis.at(tick.value), -0.01) << tick.label;
      ASSERT_LE(axis.at(tick.value), 100.01) << tick.label;
    }
    ASSERT_EQ(labels.size(), ticks.size()) << low << " to " << high << ": " << *labels.begin();
  }
}

TEST(Axis, LabelsReadWell) {
  const auto labels = [](double low, double high, bool log) {
    std::string out;
    for (const Tick& tick : axis_ticks({low, high, log, 0, 1}, 6)) out += tick.label + " ";
    return out;
  };
  EXPECT_EQ(labels(0, 1, false), "0 0.2 0.4 0.6 0.8 1.0 ");
  EXPECT_EQ(labels(0, 60000, false), "0 10k 20k 30k 40k 50k 60k ");
  EXPECT_EQ(labels(1e6, 1e9, true), "1M 10M 100M 1B ");
  EXPECT_EQ(labels(2, 12, true), "2 5 10 ");
  EXPECT_EQ(labels(-1.5, 1.5, false), "−1.5 −1.0 −0.5 0 0.5 1.0 1.5 ");
}

TEST(Axis, OneValueHasARangeAroundIt) {
  for (const double value : {0.0, 5.0, -3e-200, 1e300}) {
    Extent extent(false);
    extent.add(value);
    const auto [low, high] = extent.range(0.05);
    EXPECT_LT(low, value);
    EXPECT_GT(high, value);
  }
}

}  // namespace
}  // namespace satformer
