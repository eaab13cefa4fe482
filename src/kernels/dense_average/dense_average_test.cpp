#include "kernels/dense_average/dense_average.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "kernels/op_check.h"

namespace satformer {
namespace {

using testing::check_op;
using testing::random_tensor;

TEST(DenseAverage, MatchesReference) {
  for (const std::vector<std::int64_t>& shape :
       std::vector<std::vector<std::int64_t>>{{2, 3, 10}, {1, 1, 33}, {0, 2, 4}, {3, 40, 50}}) {
    for (const std::size_t count : {1U, 2U, 9U}) {
      TensorList inputs;
      std::vector<std::string> names;
      for (std::size_t j = 0; j < count; ++j) {
        inputs.push_back(random_tensor(shape, j));
        names.push_back("state " + std::to_string(j));
      }
      inputs.push_back(random_tensor({1, static_cast<std::int64_t>(count)}, 77));
      names.emplace_back("weights");
      check_op({.body =
                    [](const TensorList& in) {
                      return TensorList{dense_average({in.begin(), in.end() - 1}, in.back())};
                    },
                .inputs = inputs,
                .names = names});
    }
  }
}

TEST(DenseAverage, MorePiecesThanTeamsMatchReference) {
  check_op({.body =
                [](const TensorList& in) {
                  return TensorList{dense_average({in[0], in[1]}, in[2])};
                },
            .inputs = {random_tensor({1050, 2000}, 1, 1.0, 0.5), random_tensor({1050, 2000}, 2, 1.0, 0.5),
                       random_tensor({2}, 3)},
            .names = {"state 0", "state 1", "weights"},
            .difference_step = 0,
            .bf16 = false});
}

TEST(DenseAverage, RefusesAnotherNumberOfWeights) {
  const at::Tensor x = random_tensor({2, 4}, 1);
  EXPECT_THROW(dense_average({x, x}, random_tensor({3}, 1)), Error);
}

}  // namespace
}  // namespace satformer
