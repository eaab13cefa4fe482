#include "kernels/finite.h"

#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include <limits>

namespace satformer {
namespace {

TEST(AllFinite, FindsOneNumberAnywhere) {
  constexpr double infinity = std::numeric_limits<double>::infinity();
  for (const at::ScalarType dtype : {at::kFloat, at::kBFloat16, at::kHalf, at::kDouble}) {
    for (const std::int64_t count : {1, 7, 65536, 200'001}) {
      at::Tensor t = at::zeros({count}, at::TensorOptions().dtype(dtype));
      t.fill_(-60000);
      EXPECT_TRUE(all_finite(t)) << dtype << ' ' << count;
      for (const double bad : {infinity, -infinity, std::numeric_limits<double>::quiet_NaN()}) {
        for (const std::int64_t at : {std::int64_t{0}, count / 2, count - 1}) {
          t[at] = bad;
          EXPECT_FALSE(all_finite(t)) << dtype << ' ' << count << ' ' << at << ' ' << bad;
          t[at] = 1;
        }
      }
    }
  }
  at::Tensor largest = at::zeros({3, 4});
  largest.fill_(std::numeric_limits<float>::max());
  EXPECT_TRUE(all_finite(largest));
  EXPECT_TRUE(all_finite(largest.t()));
  largest[1][2] = infinity;
  EXPECT_FALSE(all_finite(largest.t()));
  EXPECT_TRUE(all_finite(at::zeros({0})));
  EXPECT_TRUE(all_finite(at::zeros({3}, at::kLong)));
}

}  // namespace
}  // namespace satformer
