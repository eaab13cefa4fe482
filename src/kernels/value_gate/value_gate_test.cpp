#include "kernels/value_gate/value_gate.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "kernels/op_check.h"

namespace satformer {
namespace {

using testing::check_op;
using testing::random_tensor;

TEST(ValueGate, EveryGateMatchesReference) {
  for (const std::string& name : gate_names()) {
    const Gate gate = gate_from_name(name);
    for (const std::vector<std::int64_t>& shape :
         std::vector<std::vector<std::int64_t>>{{2, 7, 3, 10}, {1, 1, 8, 64}, {2, 0, 2, 4}, {2, 100, 1, 33}}) {
      SCOPED_TRACE(name);
      check_op({.body = [gate](const TensorList& in) { return TensorList{value_gate(in[0], in[1], in[2], gate)}; },
                .inputs = {random_tensor(shape, 1), random_tensor(shape, 2),
                           random_tensor({shape[0], shape[1], shape[2]}, 3, 2.0)},
                .names = {"v", "v1", "logits"},
                .difference_step = gate == Gate::relu ? 0 : 5e-3});
    }
  }
}

TEST(ValueGate, ExtremeLogitsGiveFiniteGradients) {
  for (const std::string name : {"sigmoid", "tanh", "softmax", "softmax_sigmoid"}) {
    const at::Tensor logits = (random_tensor({1, 3, 4}, 3) * 150.0).set_requires_grad(true);
    const at::Tensor v = random_tensor({1, 3, 4, 8}, 1);
    const at::Tensor y = value_gate(v, v, logits, gate_from_name(name));
    const at::Tensor grad = testing::gradients({y}, {v}, {logits})[0];
    EXPECT_TRUE(y.isfinite().all().item<bool>() && grad.isfinite().all().item<bool>()) << name;
  }
}

TEST(GatedValueMix, MatchesReference) {
  check_op({.body = [](const TensorList& in) { return TensorList{gated_value_mix(in[0], in[1], in[2])}; },
            .inputs = {random_tensor({2, 5, 3, 8}, 1), random_tensor({2, 5, 3, 8}, 2), random_tensor({2, 5, 3}, 3)},
            .names = {"v", "v1", "alpha"}});
}

TEST(StaticValueMix, MatchesReference) {
  for (const std::vector<std::int64_t>& shape :
       std::vector<std::vector<std::int64_t>>{{2, 5, 3, 8}, {1, 1, 2, 7}, {0, 3, 2, 4}, {3, 200, 4, 16}}) {
    check_op(
        {.body = [](const TensorList& in) { return TensorList{static_value_mix(in[0], in[1], in[2], in[3])}; },
         .inputs = {random_tensor(shape, 1), random_tensor(shape, 2), random_tensor({}, 3), random_tensor({}, 4)},
         .names = {"v", "v1", "lambda1", "lambda2"},
         .in_bf16 = {true, true, false, false}});
  }
}

TEST(StaticValueMix, MorePiecesThanTeamsMatchReference) {
  check_op({.body = [](const TensorList& in) { return TensorList{static_value_mix(in[0], in[1], in[2], in[3])}; },
            .inputs = {random_tensor({1, 1050, 4, 500}, 1, 1.0, 0.5), random_tensor({1, 1050, 4, 500}, 2, 1.0, 0.5),
                       random_tensor({}, 3), random_tensor({}, 4)},
            .names = {"v", "v1", "lambda1", "lambda2"},
            .difference_step = 0,
            .bf16 = false});
}

TEST(ValueGate, UnknownNamesAndShapesAreRefused) {
  try {
    gate_from_name("sigmiod");
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ExitCode::config);
    EXPECT_NE(std::string(e.what()).find("sigmoid"), std::string::npos);
  }
  const at::Tensor v = random_tensor({1, 2, 3, 4}, 1);
  EXPECT_THROW(value_gate(v, v, random_tensor({1, 2, 4}, 1), Gate::relu), Error);
}

}  // namespace
}  // namespace satformer
