#include "kernels/linear/linear.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/gelu.h>
#include <gtest/gtest.h>

#include <limits>

#include "base/error.h"
#include "kernels/backend.h"
#include "kernels/isa.h"
#include "kernels/linear/packed.h"
#include "kernels/op_check.h"

namespace satformer {
namespace {

using testing::expect_near;
using testing::random_tensor;

LinearWeight packed_weight(const at::Tensor& dense, WeightFormat format) {
  return {{}, std::make_shared<const PackedWeight>(pack_weight(dense, format))};
}

TEST(Linear, FewRowsMatchTheReferenceOnEveryInstructionSet) {
  const at::NoGradGuard no_grad;
  for (const std::string& isa : cpu_isa_names()) {
    const CpuIsaScope scope(isa);
    for (const auto& [N, K] : std::vector<std::pair<std::int64_t, std::int64_t>>{
             {1, 1}, {16, 32}, {33, 70}, {100, 257}, {259, 96}, {17, 1031}}) {
      const at::Tensor dense = random_tensor({N, K}, 1, 0.3), bias = random_tensor({N}, 2);
      for (const std::int64_t M : {1, 2, 3, 4, 5, 7, 16}) {
        const at::Tensor x = random_tensor({M, K}, 3);
        for (const at::ScalarType dtype : {at::kFloat, at::kBFloat16}) {
          const std::vector<LinearWeight> weights = {
              {dense.to(dtype), {}, bias.to(dtype)},
              {{}, packed_weight(dense, WeightFormat::int8).packed, bias.to(dtype)},
              packed_weight(dense, WeightFormat::int4)};
          const TensorList got = linear_each(x.to(dtype), weights);
          const TensorList want = reference::linear_each(x.to(dtype), weights);
          for (std::size_t i = 0; i < want.size(); ++i) {
            ASSERT_EQ(got[i].scalar_type(), dtype);
            // Packed: activations in 16 bits by groups of 32. In bf16 a rounding of the result.
            const double tolerance = dtype == at::kBFloat16 ? 1e-2 : i == 0 ? 3e-6 : 1e-4;
            expect_near(got[i].to(at::kFloat), want[i].to(at::kFloat), tolerance,
                        concat(isa, " ", N, "x", K, " rows ", M, " weight ", i, " ", toString(dtype)));
          }
        }
      }
    }
  }
}

// What serving and speculation rely on.
TEST(Linear, ARowHasTheSameBitsAloneAndAmongOthers) {
  const at::NoGradGuard no_grad;
  for (const std::string& isa : cpu_isa_names()) {
    const CpuIsaScope scope(isa);
    const at::Tensor dense = random_tensor({83, 167}, 1, 0.3), all = random_tensor({16, 167}, 2);
    for (const at::ScalarType dtype : {at::kFloat, at::kBFloat16}) {
      const std::vector<LinearWeight> weights = {
          {dense.to(dtype)}, packed_weight(dense, WeightFormat::int8), packed_weight(dense, WeightFormat::int4)};
      const at::Tensor x = all.to(dtype);
      const TensorList whole = linear_each(x, weights);
      for (const std::int64_t rows : {1, 2, 3, 5, 7}) {
        for (const std::int64_t first : {0, 4, 9}) {
          const TensorList part = linear_each(x.narrow(0, first, rows), weights);
          for (std::size_t i = 0; i < weights.size(); ++i) {
            EXPECT_TRUE(part[i].equal(whole[i].narrow(0, first, rows))) << isa << " " << i << " " << rows;
          }
        }
      }
    }
  }
}

TEST(Linear, ManyRowsOfPackedWeights) {
  const at::NoGradGuard no_grad;
  for (const std::string& isa : cpu_isa_names()) {
    const CpuIsaScope scope(isa);
    const at::Tensor dense = random_tensor({1100, 300}, 1, 0.3), x = random_tensor({5, 17, 300}, 2);
    for (const WeightFormat format : {WeightFormat::int8, WeightFormat::int4}) {
      LinearWeight weight = packed_weight(dense, format);
      weight.bias = random_tensor({1100}, 3);
      const at::Tensor want = reference::linear_each(x, {&weight, 1})[0];
      EXPECT_EQ(linear(x, weight).sizes(), want.sizes());
      expect_near(linear(x, weight), want, 1e-4, isa);
      // What few rows give, up to the rounding of sums.
      const at::Tensor few = x.narrow(0, 0, 1).narrow(1, 0, 9);
      expect_near(linear(x, weight).narrow(0, 0, 1).narrow(1, 0, 9), linear(few, weight), 3e-6, isa + " few");
      weight.bias = at::Tensor();
      const at::Tensor bf16 = linear(x.to(at::kBFloat16), weight);
      expect_near(bf16.to(at::kFloat), reference::linear_each(x, {&weight, 1})[0], 2e-2, isa + " bf16");
    }
  }
}

TEST(Linear, WhatIsNotFiniteStaysSo) {
  const at::NoGradGuard no_grad;
  const at::Tensor dense = random_tensor({20, 70}, 1);
  for (const float bad : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    at::Tensor x = random_tensor({3, 70}, 2);
    x[1][69].fill_(bad);
    for (const WeightFormat format : {WeightFormat::int8, WeightFormat::int4}) {
      const at::Tensor y = linear(x, packed_weight(dense, format));
      EXPECT_FALSE(y[1].isfinite().any().item<bool>());
      EXPECT_TRUE(y[0].isfinite().all().item<bool>() && y[2].isfinite().all().item<bool>());
      at::Tensor weight = dense.clone();
      weight[4][3].fill_(bad);
      const at::Tensor of_bad = linear(random_tensor({2, 70}, 3), packed_weight(weight, format));
      EXPECT_FALSE(of_bad.select(1, 4).isfinite().any().item<bool>());
      EXPECT_TRUE(of_bad.select(1, 5).isfinite().all().item<bool>());
    }
  }
}

TEST(Linear, ProductsOfOneInputAddTheirGradients) {
  for (const bool reads_on : {true, false}) {
    testing::check_op(
        {.body =
             [=](const TensorList& in) {
               at::Tensor x = in[0];
               TensorList outputs =
                   linear_each_through(x, std::vector<LinearWeight>{{in[1], {}, in[2]}, {in[3]}, {in[4], {}, in[5]}});
               if (reads_on) outputs.push_back(at::gelu(x));
               return outputs;
             },
         .inputs = {random_tensor({2, 3, 8}, 1), random_tensor({4, 8}, 2, 0.3), random_tensor({4}, 3),
                    random_tensor({5, 8}, 4, 0.3), random_tensor({1, 8}, 5, 0.3), random_tensor({1}, 6)},
         .names = {"x", "first", "first bias", "second", "third", "third bias"},
         .tolerance = 1e-5});
  }
}

TEST(Linear, PackedWeightsHaveNoGradient) {
  const at::Tensor dense = random_tensor({4, 8}, 1), x = random_tensor({2, 8}, 2);
  const LinearWeight weight = packed_weight(dense, WeightFormat::int8);
  try {
    linear(x, weight);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::config);
  }
  const at::NoGradGuard no_grad;
  EXPECT_THROW(linear(random_tensor({2, 9}, 2), weight), Error);
}

TEST(PackedWeight, IsWithinHalfAStep) {
  for (const auto& [N, K] : std::vector<std::pair<std::int64_t, std::int64_t>>{{1, 1}, {16, 64}, {37, 100}}) {
    const at::Tensor dense = random_tensor({N, K}, 7, 0.5);
    const PackedWeight eight = pack_weight(dense, WeightFormat::int8);
    EXPECT_EQ(eight.bytes(), packed_bytes(WeightFormat::int8, N, K));
    const at::Tensor step = dense.abs().amax({1}, true) / 127;
    EXPECT_TRUE(((unpack_weight(eight, at::kFloat) - dense).abs() <= step * 0.501).all().item<bool>());
    const PackedWeight four = pack_weight(dense, WeightFormat::int4);
    EXPECT_EQ(four.bytes(), packed_bytes(WeightFormat::int4, N, K));
    const at::Tensor difference = unpack_weight(four, at::kFloat) - dense;
    const at::Tensor largest = dense.abs().amax({1}, true) / 8;
    EXPECT_TRUE((difference.abs() <= largest * 1.8).all().item<bool>());
    if (K > 32) {
      EXPECT_LE((difference.norm() / dense.norm()).item<double>(), 0.1);
    }
  }
  const at::Tensor zero = random_tensor({3, 40}, 1) * 0;
  for (const WeightFormat format : {WeightFormat::int8, WeightFormat::int4}) {
    EXPECT_TRUE(unpack_weight(pack_weight(zero, format), at::kFloat).equal(zero));
  }
}

TEST(RowByRow, GivesEachRowWhatItGetsAlone) {
  const at::NoGradGuard no_grad;
  const at::Tensor x = random_tensor({3, 4, 13}, 1);
  const auto f = [](const at::Tensor& t) { return at::gelu(t); };
  const at::Tensor all = row_by_row(x, f);
  EXPECT_EQ(all.sizes(), x.sizes());
  for (std::int64_t b = 0; b < 3; ++b) {
    for (std::int64_t t = 0; t < 4; ++t) {
      EXPECT_TRUE(all[b][t].equal(at::gelu(x[b][t].unsqueeze(0))[0]));
    }
  }
}

}  // namespace
}  // namespace satformer
