#include "kernels/hyper_connection/hyper_connection.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "kernels/op_check.h"
#include "kernels/swiglu/swiglu.h"

namespace satformer {
namespace {

using testing::check_op;
using testing::random_tensor;

struct Case {
  std::vector<std::int64_t> shape;  // B, T, n, D
  bool dynamic = true, layer_norm = false, use_tanh = true;
  int sublayers = 1;
};

// Reading and writing in one body: the streams reach the result by both, after sublayers before if there are any.
void check(const Case& c) {
  const std::int64_t n = c.shape[2], D = c.shape[3];
  TensorList inputs = {random_tensor(c.shape, 1, 1.2, 0.3), random_tensor({c.shape[0], c.shape[1], D}, 2),
                       random_tensor({n, n + 1}, 3, 0.5, 0.3), random_tensor({n}, 4, 0.5, 1.0)};
  std::vector<std::string> names = {"streams", "output", "static_alpha", "static_beta"};
  if (c.dynamic) {
    inputs.push_back(random_tensor({D, n + 1}, 5, 0.2));
    inputs.push_back(random_tensor({D}, 6, 0.2));
    inputs.push_back(random_tensor({1}, 7, 0.1, 0.5));
    inputs.push_back(random_tensor({1}, 8, 0.1, 0.5));
    inputs.push_back(random_tensor({D}, 9, 0.2, 1.0));
    names.insert(names.end(), {"alpha_proj", "beta_proj", "alpha_scale", "beta_scale", "norm_weight"});
    if (c.layer_norm) {
      inputs.push_back(random_tensor({D}, 10, 0.2));
      names.emplace_back("norm_bias");
    }
  }
  check_op({.body =
                [c](const TensorList& in) {
                  HyperConnectionParams p;
                  p.static_alpha = in[2];
                  p.static_beta = in[3];
                  if (c.dynamic) {
                    p.dynamic_alpha_proj = in[4];
                    p.dynamic_beta_proj = in[5];
                    p.dynamic_alpha_scale = in[6];
                    p.dynamic_beta_scale = in[7];
                    p.norm_weight = in[8];
                    if (c.layer_norm) p.norm_bias = in[9];
                  }
                  p.use_tanh = c.use_tanh;
                  at::Tensor streams = in[0];
                  for (int i = 1; i < c.sublayers; ++i) {
                    const HyperRead read = hyper_read(streams, p);
                    streams = hyper_write(read.streams_BTnD, read, swiglu(read.input_BTD, in[1]));
                  }
                  const HyperRead read = hyper_read(streams, p);
                  TensorList outputs = {read.input_BTD, hyper_write(read.streams_BTnD, read, in[1])};
                  if (c.dynamic) {
                    outputs.push_back(read.alpha);
                    outputs.push_back(read.beta);
                  }
                  return outputs;
                },
            .inputs = inputs,
            .names = names,
            .tolerance = 2e-5,
            .difference_step = 2e-3});
}

TEST(HyperConnection, EveryRateMatchesReference) {
  for (std::int64_t n = 1; n <= 9; ++n) check({.shape = {2, 3, n, 12}});
}

TEST(HyperConnection, EveryFormMatchesReference) {
  check({.shape = {2, 3, 4, 17}, .layer_norm = true});
  check({.shape = {2, 3, 4, 17}, .use_tanh = false});
  check({.shape = {2, 3, 4, 20}, .layer_norm = true});
  check({.shape = {2, 3, 2, 20}, .layer_norm = true, .use_tanh = false});
  check({.shape = {2, 3, 4, 20}, .dynamic = false});
  check({.shape = {2, 3, 2, 17}, .layer_norm = true, .use_tanh = false});
  check({.shape = {2, 3, 4, 17}, .dynamic = false});
  check({.shape = {1, 2, 1, 8}, .dynamic = false});
}

TEST(HyperConnection, EdgeShapesMatchReference) {
  check({.shape = {1, 1, 4, 64}});
  check({.shape = {1, 0, 4, 8}});
  check({.shape = {1, 0, 4, 8}, .dynamic = false});
  check({.shape = {2, 100, 4, 24}});
  check({.shape = {2, 300, 4, 8}});  // more rows than the GPU has teams
  check({.shape = {2, 300, 2, 8}, .dynamic = false});
  check({.shape = {2, 100, 3, 24}, .dynamic = false});
}

// In backward most of the streams are made again.
TEST(HyperConnection, SeveralSublayersMatchReference) {
  check({.shape = {2, 3, 4, 16}, .sublayers = 6});
  check({.shape = {2, 3, 2, 16}, .dynamic = false, .sublayers = 5});
}

TEST(HyperConnection, RefusesCoefficientsOfAnotherRate) {
  HyperConnectionParams p;
  p.static_alpha = random_tensor({4, 5}, 1);
  p.static_beta = random_tensor({4}, 1);
  EXPECT_THROW(hyper_read(random_tensor({1, 2, 3, 8}, 1), p), Error);
}

}  // namespace
}  // namespace satformer
