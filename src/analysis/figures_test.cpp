#include "analysis/figures.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "analysis/estimate.h"

#include <ATen/ops/tensor.h>

namespace satformer {
namespace {

using Floats = std::vector<float>;

TEST(Concentration, OfEvenAndOfSingleWeights) {
  const Concentration even = concentration(Floats{2, 2, 2, 2});
  EXPECT_NEAR(even.entropy, 1, 1e-12);
  EXPECT_NEAR(even.gini, 0, 1e-12);
  EXPECT_NEAR(even.top1, 0.25, 1e-12);
  const Concentration one = concentration(Floats{0, 0, -4, 0});
  EXPECT_NEAR(one.entropy, 0, 1e-12);
  EXPECT_NEAR(one.gini, 0.75, 1e-12);
  EXPECT_NEAR(one.top10, 1, 1e-12);
  EXPECT_TRUE(std::isnan(concentration(Floats{0, 0}).gini));
  EXPECT_TRUE(std::isnan(concentration({}).entropy));
}

TEST(Concentration, OfUnevenWeights) {
  const Concentration c = concentration(Floats{3, 1});
  EXPECT_NEAR(c.entropy, -(0.25 * std::log(0.25) + 0.75 * std::log(0.75)) / std::log(2.0), 1e-12);
  EXPECT_NEAR(c.gini, 0.25, 1e-12);  // (-1 * 1 + 1 * 3) / (2 * 4)
  Floats many(200, 1);
  many[7] = 5;
  many[8] = 3;
  EXPECT_NEAR(concentration(many).top1, 8.0 / 206, 1e-12);          // the two largest
  EXPECT_NEAR(concentration(many).top10, (8.0 + 18) / 206, 1e-12);  // the twenty largest
}

TEST(Correlation, Pearson) {
  EXPECT_NEAR(pearson(Floats{1, 2, 3}, Floats{2, 4, 7}), 5 / std::sqrt(2 * 114.0 / 9), 1e-6);
  EXPECT_NEAR(pearson(Floats{1, 2}, Floats{5, 3}), -1, 1e-6);
  EXPECT_TRUE(std::isnan(pearson(Floats{0.1f, 0.1f, 0.1f}, Floats{1, 2, 3})));
  EXPECT_TRUE(std::isnan(pearson(Floats{1}, Floats{1})));
}

TEST(Correlation, SpearmanSharesTheRanksOfTies) {
  EXPECT_EQ(ranks(Floats{1, 2, 2, 4}), (Floats{1, 2.5f, 2.5f, 4}));
  EXPECT_NEAR(spearman(Floats{1, 2, 2, 4}, Floats{10, 20, 30, 5}), -1.5 / std::sqrt(4.5 * 5), 1e-6);
  EXPECT_NEAR(spearman(Floats{1, 2, 3}, Floats{1, 100, 10000}), 1, 1e-6);
}

TEST(Clusters, AverageLinkageNotSingleLinkage) {
  const std::vector<double> s = {1, .9, .6, .2, .9, 1, .4, .2, .6, .4, 1, .8, .2, .2, .8, 1};
  EXPECT_EQ(average_linkage(s, 4, 0.5), (std::vector<std::int64_t>{0, 0, 1, 1}));  // between them 0.35
  EXPECT_EQ(average_linkage(s, 4, 0.3), (std::vector<std::int64_t>{0, 0, 0, 0}));
  EXPECT_EQ(average_linkage(s, 4, 0.95), (std::vector<std::int64_t>{0, 1, 2, 3}));
  const double nan = std::numeric_limits<double>::quiet_NaN();
  EXPECT_EQ(average_linkage(std::vector<double>{1, nan, nan, 1}, 2, 0.1), (std::vector<std::int64_t>{0, 1}));
}

TEST(Estimate, IsARatioOfSumsOverWindows) {
  const at::Tensor values = at::tensor({1.0, 3.0, 5.0, 7.0}).view({2, 2});
  const Estimate all = window_estimate(values, {}, 1000, "x");
  EXPECT_EQ(all.value, 4);
  EXPECT_EQ(all.tokens, 4);
  EXPECT_EQ(all.interval.low, 2);  // one window alone
  EXPECT_EQ(all.interval.high, 6);
  const at::Tensor where = at::tensor({1, 0, 1, 1}).view({2, 2}).to(at::kBool);
  const Estimate some = window_estimate(values, where, 1000, "x");
  EXPECT_NEAR(some.value, 13.0 / 3, 1e-12);
  EXPECT_EQ(some.tokens, 3);
  EXPECT_EQ(some.interval.low, 1);
  EXPECT_EQ(some.interval.high, 6);
  const Estimate none = window_estimate(values, where.logical_and(where.logical_not()), 1000, "x");
  EXPECT_TRUE(std::isnan(none.value));
  EXPECT_EQ(none.tokens, 0);
}

TEST(Estimate, GroupsAreDrawnApart) {
  const GroupDifference d = group_difference({0, 0, 0}, {1, 3}, 2000, "x");
  EXPECT_EQ(d.first, 0);
  EXPECT_EQ(d.second, 2);
  EXPECT_EQ(d.interval.low, 1);  // both draws of the second group may be the same text
  EXPECT_EQ(d.interval.high, 3);
}

}  // namespace
}  // namespace satformer
