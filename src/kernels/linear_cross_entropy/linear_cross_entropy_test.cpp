#include "kernels/linear_cross_entropy/linear_cross_entropy.h"

#include <ATen/ops/full.h>
#include <ATen/ops/linear.h>
#include <gtest/gtest.h>

#include <limits>

#include "base/error.h"
#include "kernels/backend.h"
#include "kernels/op_check.h"

namespace satformer {
namespace {

using testing::check_op;
using testing::random_tensor;

at::Tensor some_targets(std::int64_t rows, std::int64_t classes) {
  at::Tensor t = at::full({rows}, 0, at::kLong);
  for (std::int64_t i = 0; i < rows; ++i) t[i].fill_(i % 5 == 3 ? ignore_index : (i * 7919) % classes);
  return t;
}

void check(std::int64_t rows, std::int64_t width, std::int64_t classes, double scale) {
  check_op(
      {.body = [scale](const TensorList& in) { return TensorList{linear_cross_entropy(in[0], in[1], in[2], scale)}; },
       .inputs = {random_tensor({rows, width}, 1), random_tensor({classes, width}, 2, 0.5),
                  some_targets(rows, classes)},
       .names = {"hidden", "weight", "targets"},
       .tolerance = 2e-5});
}

TEST(LinearCrossEntropy, MatchesReference) {
  check(7, 12, 33, 0.25);
  check(1, 8, 5, 1.0);
  check(0, 8, 5, 1.0);
  check(4, 8, 1, 1.0);
  check(40, 4, 700000, 0.1);  // several chunks of rows
}

TEST(LinearCrossEntropy, EveryTargetIgnoredGivesZero) {
  const at::Tensor hidden = random_tensor({3, 4}, 1).set_requires_grad(true), weight = random_tensor({6, 4}, 2);
  const at::Tensor loss = linear_cross_entropy(hidden, weight, at::full({3}, ignore_index, at::kLong), 1.0);
  EXPECT_EQ(loss.item<float>(), 0.0f);
  EXPECT_EQ(testing::gradients({loss}, {at::full({}, 1.0)}, {hidden})[0].abs().max().item<float>(), 0.0f);
}

TEST(LinearCrossEntropy, NotANumberShows) {
  at::Tensor hidden = random_tensor({3, 4}, 1);
  hidden[1][2].fill_(std::numeric_limits<float>::quiet_NaN());
  const at::Tensor loss = linear_cross_entropy(hidden, random_tensor({6, 4}, 2), some_targets(3, 6), 1.0);
  EXPECT_TRUE(loss.isnan().item<bool>());
}

TEST(LinearCrossEntropy, TargetsOutOfRangeAreRefused) {
  const at::Tensor hidden = random_tensor({1, 4}, 1), weight = random_tensor({6, 4}, 2);
  for (const std::int64_t bad : {6, -1}) {
    EXPECT_THROW(linear_cross_entropy(hidden, weight, at::full({1}, bad, at::kLong), 1.0), Error);
    EXPECT_THROW(token_losses(hidden, weight, at::full({1}, bad, at::kLong)), Error);
  }
}

TEST(TokenLosses, SumToTheLossAndKnowTheGreedyHits) {
  const at::Tensor hidden = random_tensor({9, 8}, 1), weight = random_tensor({20, 8}, 2);
  at::Tensor targets = some_targets(9, 20);
  const at::Tensor best = at::linear(hidden, weight).argmax(1);
  targets[0].copy_(best[0]);
  targets[8].copy_(best[8]);
  at::Tensor greedy;
  const at::Tensor losses = token_losses(hidden, weight, targets, &greedy);
  BackendScope scope(Backend::reference);
  testing::expect_near(losses.sum(), linear_cross_entropy(hidden, weight, targets, 1.0), 1e-5, "sum");
  EXPECT_EQ(losses[3].item<float>(), 0.0f);
  EXPECT_TRUE(greedy.equal(best.eq(targets)));
}

}  // namespace
}  // namespace satformer
