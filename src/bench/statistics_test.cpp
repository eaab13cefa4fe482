#include "bench/statistics.h"

#include <gtest/gtest.h>

#include <cmath>

namespace satformer {
namespace {

TEST(Statistics, Median) {
  EXPECT_EQ(median({3, 1, 2}), 2);
  EXPECT_EQ(median({4, 1, 3, 2}), 2.5);
  EXPECT_EQ(median({7}), 7);
  EXPECT_TRUE(std::isnan(median({})));
}

TEST(Statistics, IntervalHoldsTheMedianAndNarrowsWithAgreement) {
  const std::vector<double> wide = {0.8, 0.9, 1.0, 1.1, 1.2, 0.85, 1.15, 0.95, 1.05};
  const Interval interval = bootstrap_median(wide);
  EXPECT_LE(interval.low, median(wide));
  EXPECT_GE(interval.high, median(wide));
  EXPECT_GE(interval.low, 0.8);
  EXPECT_LE(interval.high, 1.2);
  EXPECT_LT(interval.low, interval.high);
  const Interval same = bootstrap_median(std::vector<double>(9, 1.5));
  EXPECT_EQ(same.low, 1.5);
  EXPECT_EQ(same.high, 1.5);
  const Interval again = bootstrap_median(wide);
  EXPECT_EQ(interval.low, again.low);
  EXPECT_EQ(interval.high, again.high);
}

}  // namespace
}  // namespace satformer
