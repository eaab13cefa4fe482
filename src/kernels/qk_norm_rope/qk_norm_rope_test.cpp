#include "kernels/qk_norm_rope/qk_norm_rope.h"

#include <ATen/ops/full.h>
#include <ATen/ops/tensor.h>
#include <gtest/gtest.h>

#include <cmath>

#include "base/error.h"
#include "kernels/op_check.h"

namespace satformer {
namespace {

using testing::check_op;
using testing::random_tensor;

void check(std::vector<std::int64_t> shape, bool norm, const at::Tensor& positions) {
  const at::Tensor weight = norm ? random_tensor({shape[3]}, 2, 0.3, 1.0) : at::Tensor();
  check_op({.body =
                [positions](const TensorList& in) {
                  const RopeTable table = make_rope_table(64, in[0].size(3), 10000.0, in[0].device());
                  const at::Tensor at = positions.defined() ? positions.to(in[0].device()) : positions;
                  return TensorList{qk_norm_rope(in[0], in[1], 1e-5, table, at)};
                },
            .inputs = {random_tensor(shape, 1), weight},
            .names = {"x", "weight"}});
}

TEST(QkNormRope, MatchesReference) {
  const at::Tensor positions = at::tensor({5, 6, 7, 0, 1, 63}, at::kLong).view({2, 3});
  for (const bool norm : {false, true}) {
    check({2, 9, 3, 16}, norm, {});
    check({2, 3, 2, 10}, norm, positions);
    check({1, 1, 4, 64}, norm, {});
    check({2, 0, 4, 8}, norm, {});
    check({3, 64, 5, 6}, norm, {});
    check({3, 64, 11, 4}, norm, {});  // more rows than the GPU has teams
  }
}

// transformers' function for Llama 3.1 with theta 500, heads of 16, factor 8, 1 and 4 turns, 256 positions.
TEST(QkNormRope, ScalesFrequenciesAsLlama3Does) {
  const std::vector<double> frequencies = {1.0,
                                           0.4598632752895355,
                                           0.2114742398262024,
                                           0.09617964178323746,
                                           0.0163135789334774,
                                           0.0025707141030579805,
                                           0.0011821769876405597,
                                           0.0005436398205347359};
  const RopeScaling scaling{RopeScaling::Kind::llama3, 8, 1, 4, 256};
  const RopeTable table = make_rope_table(3, 16, 500.0, at::kCPU, scaling);
  for (std::size_t i = 0; i < frequencies.size(); ++i) {
    EXPECT_NEAR(table.sin_PD[2][static_cast<std::int64_t>(i)].item<double>(), std::sin(2 * frequencies[i]), 1e-6)
        << i;
  }
  const at::Tensor linear = rope_factors(16, 500.0, {.kind = RopeScaling::Kind::linear, .factor = 4});
  EXPECT_TRUE(linear.equal(at::full({8}, 0.25)));
  EXPECT_TRUE(rope_factors(16, 500.0, {}).equal(at::full({8}, 1.0)));
}

TEST(QkNormRope, RotatesByPositionTimesFrequency) {
  const RopeTable table = make_rope_table(8, 4, 100.0, at::kCPU);
  const at::Tensor x = at::tensor({1.0f, 2.0f, 3.0f, 4.0f}).view({1, 1, 1, 4});
  const at::Tensor y = qk_norm_rope(x, {}, 0, table, at::tensor({7}, at::kLong).view({1, 1})).flatten();
  EXPECT_NEAR(y[0].item<double>(), 1 * std::cos(7.0) - 3 * std::sin(7.0), 1e-5);
  EXPECT_NEAR(y[2].item<double>(), 1 * std::sin(7.0) + 3 * std::cos(7.0), 1e-5);
  EXPECT_NEAR(y[1].item<double>(), 2 * std::cos(0.7) - 4 * std::sin(0.7), 1e-5);
  EXPECT_NEAR(y[3].item<double>(), 2 * std::sin(0.7) + 4 * std::cos(0.7), 1e-5);
}

TEST(QkNormRope, PositionsOutsideTheTableAreRefused) {
  const RopeTable table = make_rope_table(4, 8, 10000.0, at::kCPU);
  EXPECT_THROW(qk_norm_rope(random_tensor({1, 5, 1, 8}, 1), {}, 0, table, {}), Error);
  EXPECT_THROW(qk_norm_rope(random_tensor({1, 1, 1, 8}, 1), {}, 0, table, at::tensor({4}, at::kLong).view({1, 1})),
               Error);
  EXPECT_THROW(qk_norm_rope(random_tensor({1, 1, 1, 6}, 1), {}, 0, table, {}), Error);
}

}  // namespace
}  // namespace satformer
