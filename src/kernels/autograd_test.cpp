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

// y = 2 x, made again when it is needed.
class DoubledOp : public DifferentiableOp {
 public:
  explicit DoubledOp(int& remade) : remade_(remade) {}
  TensorList forward(const TensorList& inputs, TensorList& saved) override {
    saved = inputs;
    return {inputs[0] * 2.0};
  }
  TensorList backward(const TensorList& grads, const TensorList&, const std::vector<bool>&) override {
    return {grads[0] * 2.0};
  }
  int remakes(std::size_t) const override { return 1; }
  at::Tensor remake(std::size_t, const TensorList& saved) override {
    ++remade_;
    return saved[0] * 2.0;
  }

 private:
  int& remade_;
};

// y = x^2, from the x that it kept.
class SquaredOp : public DifferentiableOp {
 public:
  TensorList forward(const TensorList& inputs, TensorList& saved) override {
    saved = inputs;
    return {inputs[0] * inputs[0]};
  }
  TensorList backward(const TensorList& grads, const TensorList& saved, const std::vector<bool>&) override {
    return {grads[0] * saved[0] * 2.0};
  }
};

class Remaking : public ::testing::Test {
 protected:
  at::Tensor doubled(const at::Tensor& t) { return apply_op(std::make_shared<DoubledOp>(remade_), {t})[0]; }
  static at::Tensor squared(const at::Tensor& t) { return apply_op(std::make_shared<SquaredOp>(), {t})[0]; }

  at::Tensor x_ = random_tensor({3, 5}, 1).set_requires_grad(true);
  int remade_ = 0;
};

TEST_F(Remaking, WhatIsRemadeIsNotKeptAndMadeOnceForAllThatReadIt) {
  at::Tensor y = doubled(x_);
  EXPECT_EQ(remade_by(y), 1);
  const at::Tensor sum = squared(y) + squared(y);
  EXPECT_EQ(y.use_count(), 1u);  // this one
  y.reset();
  EXPECT_EQ(remade_, 0);
  torch::autograd::backward({sum.sum()}, {});
  EXPECT_EQ(remade_, 1);
  EXPECT_TRUE(x_.grad().equal(x_.detach() * 16.0));
}

TEST_F(Remaking, FromWhatIsRemadeItself) {
  const at::Tensor y = squared(doubled(doubled(x_)));
  torch::autograd::backward({y.sum()}, {}, true);
  EXPECT_EQ(remade_, 2);
  EXPECT_TRUE(x_.grad().equal(x_.detach() * 32.0));
  torch::autograd::backward({y.sum()}, {});
  EXPECT_EQ(remade_, 4);
  EXPECT_TRUE(x_.grad().equal(x_.detach() * 64.0));
}

TEST_F(Remaking, AChangedSourceIsAnError) {
  const at::Tensor source = x_ * 1.0;
  const at::Tensor y = squared(doubled(source));
  source.detach().zero_();
  EXPECT_ANY_THROW(torch::autograd::backward({y.sum()}, {}));
}

TEST_F(Remaking, OthersAndViewsAreKept) {
  const at::Tensor y = doubled(x_);
  EXPECT_EQ(remade_by(x_), 0);
  EXPECT_EQ(remade_by(squared(y)), 0);
  EXPECT_EQ(remade_by(y.view({5, 3})), 0);
  EXPECT_EQ(remade_by({}), 0);
  torch::autograd::backward({squared(y.view({5, 3})).sum()}, {});
  EXPECT_EQ(remade_, 0);
  EXPECT_TRUE(x_.grad().equal(x_.detach() * 8.0));
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
