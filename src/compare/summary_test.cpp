#include "compare/summary.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace satformer {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

TEST(MeanOf, HasStudentsInterval) {
  const SeedEstimate e = mean_of(std::vector<double>{1, 2, 3, 4, 5});
  EXPECT_EQ(e.n, 5u);
  EXPECT_DOUBLE_EQ(e.mean, 3);
  // Standard deviation sqrt(2.5), t(4, 0.975) = 2.776.
  EXPECT_NEAR(e.high - e.mean, 2.776 * std::sqrt(2.5 / 5), 1e-9);
  EXPECT_NEAR(e.mean - e.low, e.high - e.mean, 1e-12);
  const SeedEstimate one = mean_of(std::vector<double>{7});
  EXPECT_DOUBLE_EQ(one.mean, 7);
  EXPECT_TRUE(std::isnan(one.low));
  EXPECT_EQ(mean_of({}).n, 0u);
  const std::vector<double> many(200, 1.0);
  EXPECT_DOUBLE_EQ(mean_of(many).low, 1.0);
}

TEST(MedianEstimate, TakesRunsThatNeverArrive) {
  const SeedEstimate e = median_estimate(std::vector<double>{100, infinity, 200, 150, infinity});
  EXPECT_DOUBLE_EQ(e.mean, 200);
  EXPECT_DOUBLE_EQ(e.low, 100);
  EXPECT_EQ(e.high, infinity);
  EXPECT_EQ(median_estimate(std::vector<double>{infinity, infinity, 5}).mean, infinity);
}

TEST(FirstAt, TakesTheFirstOnTheRightSide) {
  const Curve curve{{10, 20, 30}, {}, {}, {0.5, 0.9, 0.7}};
  EXPECT_EQ(first_at(curve, 0.7, true), 1u);
  EXPECT_EQ(first_at(curve, 0.5, false), 0u);
  EXPECT_EQ(first_at(curve, 0.95, true), std::nullopt);
  EXPECT_EQ(first_at(curve, 0.4, false), std::nullopt);
}

TEST(Verdict, NeedsAnIntervalOnOneSideOfZero) {
  ArmSummary a;
  EXPECT_EQ(a.verdict(true), "");
  a.against = "other";
  a.difference = {1, 0.5, NAN, NAN};
  EXPECT_EQ(a.verdict(true), "one seed shows no difference");
  a.difference = {5, 0.5, -0.1, 1.1};
  EXPECT_EQ(a.verdict(true), "no difference shown");
  a.difference = {5, 0.5, 0.1, 0.9};
  EXPECT_EQ(a.verdict(true), "better");
  EXPECT_EQ(a.verdict(false), "worse");
}

}  // namespace
}  // namespace satformer
