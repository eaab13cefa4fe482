#include "kernels/swiglu/swiglu.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "kernels/op_check.h"

namespace satformer {
namespace {

using testing::check_op;
using testing::random_tensor;

TEST(Swiglu, MatchesReference) {
  for (const std::vector<std::int64_t>& shape :
       std::vector<std::vector<std::int64_t>>{{2, 3, 33}, {1, 1, 64}, {0, 5}, {700, 60}}) {
    check_op({.body = [](const TensorList& in) { return TensorList{swiglu(in[0], in[1])}; },
              .inputs = {random_tensor(shape, 1, 2.0), random_tensor(shape, 2)},
              .names = {"gate", "up"}});
  }
}

TEST(Swiglu, LargeGatesSaturate) {
  const at::Tensor gate = random_tensor({4}, 1) * 0 + 200.0, up = random_tensor({4}, 2);
  EXPECT_TRUE(swiglu(gate, up).equal(gate * up));
  EXPECT_EQ(swiglu(-gate, up).abs().max().item<float>(), 0.0f);
}

TEST(GatedMlp, MatchesReference) {
  for (const std::vector<std::int64_t>& shape :
       std::vector<std::vector<std::int64_t>>{{2, 5, 24}, {1, 1, 24}, {3, 24}, {0, 24}}) {
    check_op({.body = [](const TensorList& in) { return TensorList{gated_mlp(in[0], in[1], in[2], in[3])}; },
              .inputs = {random_tensor(shape, 1), random_tensor({40, 24}, 2, 0.3), random_tensor({40, 24}, 3, 0.3),
                         random_tensor({24, 40}, 4, 0.3)},
              .names = {"x", "w_gate", "w_up", "w_down"}});
  }
}

TEST(Swiglu, RefusesUnequalShapes) { EXPECT_THROW(swiglu(random_tensor({2}, 1), random_tensor({3}, 1)), Error); }

}  // namespace
}  // namespace satformer
