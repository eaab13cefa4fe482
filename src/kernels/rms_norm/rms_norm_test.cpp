#include "kernels/rms_norm/rms_norm.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "kernels/op_check.h"

namespace satformer {
namespace {

using testing::check_op;
using testing::random_tensor;

void check_norm(std::vector<std::int64_t> shape, bool weighted) {
  const std::int64_t C = shape.back();
  const at::Tensor weight = weighted ? random_tensor({C}, 2, 0.3, 1.0) : at::Tensor();
  check_op({.body = [](const TensorList& in) { return TensorList{rms_norm(in[0], in[1], 1e-6)}; },
            .inputs = {random_tensor(shape, 1), weight},
            .names = {"x", "weight"}});
  check_op({.body =
                [](const TensorList& in) {
                  const AddNorm r = add_rms_norm(in[0], in[1], in[2], 1e-5);
                  return TensorList{r.normed, r.sum};
                },
            .inputs = {random_tensor(shape, 1), random_tensor(shape, 3, 2.0), weight},
            .names = {"x", "residual", "weight"}});
}

TEST(RmsNorm, MatchesReference) {
  check_norm({2, 5, 64}, true);
  check_norm({3, 37}, true);
  check_norm({3, 37}, false);
  check_norm({1, 1, 16}, true);
  check_norm({7}, true);
  check_norm({5, 1}, true);
  check_norm({0, 8}, true);
  check_norm({300, 24}, true);  // several row blocks
  check_norm({1100, 8}, true);  // several rows for each team of the GPU's
}

TEST(RmsNorm, RefusesAWeightOfAnotherLength) {
  EXPECT_THROW(rms_norm(random_tensor({2, 8}, 1), random_tensor({7}, 2), 1e-6), Error);
}

}  // namespace
}  // namespace satformer
