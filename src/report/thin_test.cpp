#include "report/thin.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

namespace satformer {
namespace {

TEST(Thin, KeepsExtremesOfEveryColumn) {
  std::mt19937 random(1);
  for (int round = 0; round < 50; ++round) {
    const std::size_t n = 1 + random() % 5000;
    std::vector<double> xs, ys;
    for (std::size_t i = 0; i < n; ++i) {
      xs.push_back(600.0 * static_cast<double>(i) / static_cast<double>(n));
      ys.push_back(std::normal_distribution<>()(random));
    }
    const std::vector<std::size_t> kept = thin_points(xs, ys);
    ASSERT_TRUE(std::is_sorted(kept.begin(), kept.end()));
    ASSERT_EQ(std::adjacent_find(kept.begin(), kept.end()), kept.end());
    ASSERT_LE(kept.size(), 4 * 601U);
    EXPECT_EQ(kept.front(), 0U);
    EXPECT_EQ(kept.back(), n - 1);
    for (int column = 0; column < 600; ++column) {
      double low = 1e9, high = -1e9, kept_low = 1e9, kept_high = -1e9;
      for (std::size_t i = 0; i < n; ++i) {
        if (static_cast<int>(xs[i]) != column) continue;
        low = std::min(low, ys[i]);
        high = std::max(high, ys[i]);
      }
      for (const std::size_t i : kept) {
        if (static_cast<int>(xs[i]) != column) continue;
        kept_low = std::min(kept_low, ys[i]);
        kept_high = std::max(kept_high, ys[i]);
      }
      ASSERT_EQ(low, kept_low);
      ASSERT_EQ(high, kept_high);
    }
  }
  EXPECT_TRUE(thin_points({}, {}).empty());
}

TEST(Thin, FewPointsAllStay) {
  const std::vector<double> xs = {0, 1, 2, 3.5}, ys = {3, 1, 2, 2};
  EXPECT_EQ(thin_points(xs, ys).size(), 4U);
}

}  // namespace
}  // namespace satformer
