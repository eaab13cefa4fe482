#include "kernels/adamw/bfloat16.h"

#include <ATen/Parallel.h>
#include <ATen/ops/full.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <utility>

namespace satformer {
namespace {

at::Tensor bf16(const std::vector<double>& values) { return at::tensor(values, at::kDouble).to(at::kBFloat16); }

std::vector<int> bits(const at::Tensor& t) {
  const auto* data = static_cast<const std::uint16_t*>(t.const_data_ptr());
  return {data, data + t.numel()};
}

// torch.optim.AdamW (2.15, fused=True) on bf16 tensors: lr 2e-3, betas 0.9 and 0.95, eps 1e-8, weight decay 0.1.
TEST(AdamWBf16, NearestIsTorchsOptimizerBitForBit) {
  AdamWTensors t;
  t.params = {bf16({1.0, 0.02, -0.5, 3.0, -0.0013, 11.0})};
  t.m = {at::zeros({6}, at::kBFloat16)};
  t.v = {at::zeros({6}, at::kBFloat16)};
  const std::vector<std::vector<double>> grads = {{0.01, -0.3, 0.002, 1.0, -0.0005, 0.1},
                                                  {0.02, 0.1, -0.004, 0.5, 0.0007, -0.2},
                                                  {-0.3, 0.2, 0.001, 0.25, 0.0001, 0.4}};
  for (std::size_t step = 0; step < grads.size(); ++step) {
    t.grads = {bf16(grads[step])};
    adamw_step_bf16(t, {.learning_rate = 2e-3, .weight_decay = 0.1, .step = static_cast<std::int64_t>(step) + 1},
                    Bf16Rounding::nearest);
  }
  EXPECT_EQ(bits(t.params[0]), (std::vector<int>{16254, 15546, 48896, 16448, 47458, 16688}));
  EXPECT_EQ(bits(t.m[0]), (std::vector<int>{48353, 15260, 47308, 15898, 14345, 15607}));
  EXPECT_EQ(bits(t.v[0]), (std::vector<int>{15253, 15319, 13701, 15734, 13079, 15402}));
}

// They are worked on in parts of 2^22 elements.
TEST(AdamWBf16, ManyTensorsAreUpdatedAsEachAlone) {
  const std::vector<std::int64_t> sizes = {3, (1 << 22) + 5, 7, 1 << 21, 1 << 21, 1, 9};
  AdamWTensors all;
  const auto value = [](std::int64_t n, double x) {
    return at::full({n}, x, at::TensorOptions().dtype(at::kBFloat16));
  };
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    const auto x = static_cast<double>(i);
    all.params.push_back(value(sizes[i], 1 + x));
    all.grads.push_back(value(sizes[i], 0.25 - x / 10));
    all.m.push_back(value(sizes[i], 0.1 * x));
    all.v.push_back(value(sizes[i], 0.2 + 0.1 * x));
  }
  AdamWTensors copy;
  for (const auto& [from, to] : {std::pair{&all.params, &copy.params}, std::pair{&all.grads, &copy.grads},
                                 std::pair{&all.m, &copy.m}, std::pair{&all.v, &copy.v}}) {
    for (const at::Tensor& t : *from) to->push_back(t.clone());
  }
  const AdamWOptions options = {.learning_rate = 0.05, .weight_decay = 0.1, .grad_scale = 0.3, .step = 2};
  adamw_step_bf16(all, options, Bf16Rounding::nearest);
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    AdamWTensors one = {{copy.params[i]}, {copy.grads[i]}, {copy.m[i]}, {copy.v[i]}};
    adamw_step_bf16(one, options, Bf16Rounding::nearest);
    EXPECT_TRUE(all.params[i].equal(copy.params[i])) << i;
    EXPECT_TRUE(all.m[i].equal(copy.m[i])) << i;
    EXPECT_TRUE(all.v[i].equal(copy.v[i])) << i;
    EXPECT_TRUE(all.grads[i].equal(copy.grads[i])) << i;
    EXPECT_NE(all.params[i][0].item<float>(), static_cast<float>(1 + i));
  }
}

TEST(AdamWBf16, StochasticRoundingIsRightOnAverage) {
  // 1 + 1/1024 lies an eighth of the way from 1 to its upper neighbour 1 + 1/128.
  int up = 0;
  for (int b = 0; b < 65536; ++b)
    up += round_stochastically(1.0f + 1.0f / 1024, static_cast<std::uint16_t>(b)) == 0x3F81;
  EXPECT_EQ(up, 65536 / 8);
  for (const int b : {0, 1, 65535}) {
    const auto random = static_cast<std::uint16_t>(b);
    EXPECT_EQ(round_stochastically(-2.0f, random), 0xC000);  // exact values stay
    EXPECT_EQ(round_stochastically(std::numeric_limits<float>::infinity(), random), 0x7F80);
    const auto nan = round_stochastically(std::numeric_limits<float>::quiet_NaN(), random);
    EXPECT_TRUE((nan & 0x7F80) == 0x7F80 && (nan & 0x7F) != 0);
  }
}

// A parameter at 1.0 under a rate of 1e-3: nearest never moves it, stochastic follows the fp32 optimizer.
TEST(AdamWBf16, StochasticMovesWhatNearestFreezes) {
  constexpr int size = 4096, steps = 20;
  const auto run = [&](Bf16Rounding rounding, std::uint64_t seed) {
    AdamWTensors t;
    t.params = {at::full({size}, 1.0, at::kBFloat16)};
    t.m = {at::zeros({size}, at::kBFloat16)};
    t.v = {at::zeros({size}, at::kBFloat16)};
    t.grads = {at::full({size}, 0.25, at::kBFloat16)};
    for (int step = 1; step <= steps; ++step) {
      adamw_step_bf16(t, {.learning_rate = 1e-3, .step = step}, rounding, seed, {7});
    }
    return t.params[0];
  };
  EXPECT_TRUE(run(Bf16Rounding::nearest, 0).eq(1.0).all().item<bool>());
  const at::Tensor moved = run(Bf16Rounding::stochastic, 5);
  EXPECT_NEAR(moved.to(at::kFloat).mean().item<double>(), 1.0 - 1e-3 * steps, 1e-3);
  EXPECT_TRUE(moved.equal(run(Bf16Rounding::stochastic, 5)));
  EXPECT_FALSE(moved.equal(run(Bf16Rounding::stochastic, 6)));
  const int threads = at::get_num_threads();
  at::set_num_threads(1);
  EXPECT_TRUE(moved.equal(run(Bf16Rounding::stochastic, 5)));
  at::set_num_threads(threads);
}

}  // namespace
}  // namespace satformer
