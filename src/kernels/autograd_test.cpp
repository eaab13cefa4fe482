#include "kernels/autograd.h"

#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/full.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/tanh.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include "kernels/linear_cross_entropy/linear_cross_entropy.h"
#include "kernels/op_check.h"
#include "kernels/rms_norm/rms_norm.h"

namespace satformer {
namespace {

using testing::random_tensor;

struct Net {
  at::Tensor x = random_tensor({4, 6}, 1).set_requires_grad(true);
  at::Tensor w = random_tensor({6, 6}, 2, 0.4).set_requires_grad(true);
  at::Tensor scale = random_tensor({6}, 3, 0.2, 1.0).set_requires_grad(true);

  // x reaches the result three times; w and scale are captured.
  TensorList body(const TensorList& in) const {
    const at::Tensor h = rms_norm(in[0], scale, 1e-6);
    return {at::tanh(at::linear(h, w)) * in[0] + in[1], h * 2.0};
  }
};

TEST(Recompute, GradientsEqualThoseOfAPlainCall) {
  const TensorList output_grads = {random_tensor({4, 6}, 8), random_tensor({4, 6}, 9)};
  for (const bool second_output : {true, false}) {
    Net plain, again;
    TensorList grads = output_grads;
    if (!second_output) grads[1] = at::Tensor();
    const auto roots = [&](const TensorList& out) { return second_output ? out : TensorList{out[0]}; };
    grads.resize(second_output ? 2 : 1);
    torch::autograd::backward(roots(plain.body({plain.x, plain.x})), grads);
    const TensorList out = recompute([&](const TensorList& in) { return again.body(in); }, {again.x, again.x});
    torch::autograd::backward(roots(out), grads);
    testing::expect_near(again.x.grad(), plain.x.grad(), 1e-6, "x, whose parts may be added in another order");
    EXPECT_TRUE(plain.w.grad().equal(again.w.grad()));
    EXPECT_TRUE(plain.scale.grad().equal(again.scale.grad()));
  }
}

TEST(Recompute, NestedAndWithoutRecording) {
  Net plain, again;
  const TensorList grads = {random_tensor({4, 6}, 8)};
  const auto twice = [](const Net& net, bool nested) {
    const auto inner = [&net](const TensorList& in) { return TensorList{net.body({in[0], in[0]})[0]}; };
    const auto outer = [inner, nested](const TensorList& in) {
      return inner(nested ? recompute(inner, in) : inner(in));
    };
    return nested ? recompute(outer, {net.x}) : outer({net.x});
  };
  torch::autograd::backward(twice(plain, false), grads);
  torch::autograd::backward(twice(again, true), grads);
  EXPECT_TRUE(plain.x.grad().equal(again.x.grad()));
  EXPECT_TRUE(plain.w.grad().equal(again.w.grad()));
  at::NoGradGuard no_grad;
  EXPECT_FALSE(twice(again, true)[0].requires_grad());
}

TEST(Recompute, ReachesParametersWhenNoInputWantsAGradient) {
  Net plain, again;
  const at::Tensor x = random_tensor({4, 6}, 1);
  torch::autograd::backward({plain.body({x, x})[0]}, {random_tensor({4, 6}, 8)});
  const TensorList out = recompute([&](const TensorList& in) { return again.body(in); }, {x, x});
  torch::autograd::backward({out[0]}, {random_tensor({4, 6}, 8)});
  EXPECT_TRUE(plain.w.grad().equal(again.w.grad()));
}

TEST(ApplyOp, SumsDoNotDependOnTheNumberOfThreads) {
  const int threads = at::get_num_threads();
  const at::Tensor x = random_tensor({999, 64}, 1), dy = random_tensor({999, 64}, 2);
  const auto weight_grad = [&](int n) {
    at::set_num_threads(n);
    const at::Tensor weight = random_tensor({64}, 3).set_requires_grad(true);
    return testing::gradients({rms_norm(x, weight, 1e-6)}, {dy}, {weight})[0];
  };
  const at::Tensor one = weight_grad(1), two = weight_grad(2), three = weight_grad(3);
  at::set_num_threads(threads);
  EXPECT_TRUE(one.equal(two) && one.equal(three));
}

}  // namespace
}  // namespace satformer
