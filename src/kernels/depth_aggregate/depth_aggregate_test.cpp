#include "kernels/depth_aggregate/depth_aggregate.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "kernels/op_check.h"

namespace satformer {
namespace {

using testing::check_op;
using testing::random_tensor;

void check(std::vector<std::int64_t> shape, std::size_t states, std::int64_t ways, bool pre, bool post) {
  const std::int64_t D = shape.back();
  TensorList inputs;
  std::vector<std::string> names;
  for (std::size_t j = 0; j < states; ++j) {
    inputs.push_back(random_tensor(shape, j, 1.5));
    names.push_back("state " + std::to_string(j));
  }
  inputs.push_back(random_tensor({shape[0], shape[1], ways, static_cast<std::int64_t>(states)}, 50));
  names.emplace_back("weights");
  for (std::size_t j = 0; pre && j < states; ++j) {
    inputs.push_back(random_tensor({D}, 60 + j, 0.2, 1.0));
    names.push_back("pre norm " + std::to_string(j));
  }
  for (std::int64_t c = 0; post && c < ways; ++c) {
    inputs.push_back(random_tensor({D}, 80 + static_cast<std::uint64_t>(c), 0.2, 1.0));
    names.push_back("post norm " + std::to_string(c));
  }
  const std::size_t after_pre = states + 1 + (pre ? states : 0);
  check_op({.body =
                [=](const TensorList& in) {
                  DepthAggregateNorms norms;
                  const auto at = [&](std::size_t i) { return in.begin() + static_cast<std::ptrdiff_t>(i); };
                  norms.pre.assign(at(states + 1), at(after_pre));
                  norms.post.assign(at(after_pre), in.end());
                  TensorList through(in.begin(), at(states));
                  TensorList outputs = depth_aggregate_through(through, in[states], norms);
                  // As a later layer would read them.
                  for (std::size_t j = 0; j < through.size(); ++j) outputs.push_back(through[j] * (1.0 + j));
                  return outputs;
                },
            .inputs = inputs,
            .names = names,
            .tolerance = 2e-5,
            .difference_step = 5e-4});
}

TEST(DepthAggregate, MatchesReference) {
  check({2, 3, 12}, 3, 4, true, true);
  check({1, 1, 33}, 2, 1, true, true);
  check({2, 5, 16}, 2, 4, false, false);
  check({2, 2, 17}, 4, 1, false, false);
  check({1, 3, 8}, 2, 6, true, true);
  check({1, 3, 8}, 2, 3, true, false);
  check({1, 0, 8}, 2, 4, true, true);
  check({1, 3, 24}, 5, 1, true, true);
  check({1, 2, 16}, 6, 4, true, false);
  check({1, 2, 16}, 3, 4, false, true);
  check({2, 150, 8}, 2, 4, true, true);  // more rows than the GPU has teams
  check({1, 2, 132}, 2, 4, true, true);  // more than a warp of packs
  check({2, 90, 24}, 2, 4, true, true);  // several row blocks
}

TEST(DepthAggregate, RefusesWeightsOfAnotherDepth) {
  const at::Tensor x = random_tensor({1, 2, 4}, 1);
  EXPECT_THROW(depth_aggregate({x, x}, random_tensor({1, 2, 4, 3}, 1), {}), Error);
}

}  // namespace
}  // namespace satformer
