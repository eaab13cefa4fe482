#include "kernels/attention/attention.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/tensor.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "kernels/attention/few_queries.h"
#include "kernels/isa.h"
#include "kernels/op_check.h"

namespace satformer {
namespace {

using testing::check_op;
using testing::random_tensor;

struct Shape {
  std::int64_t B, T, S, H, Hkv, D;
};

void check(const Shape& s, const AttentionMask& mask) {
  check_op({.body =
                [mask](const TensorList& in) {
                  AttentionMask there = mask;
                  for (at::Tensor* t : {&there.key_valid_BS, &there.query_index_BT, &there.document_BT}) {
                    if (t->defined()) *t = t->to(in[0].device());
                  }
                  return TensorList{attention(in[0], in[1], in[2], there)};
                },
            .inputs = {random_tensor({s.B, s.T, s.H, s.D}, 1), random_tensor({s.B, s.S, s.Hkv, s.D}, 2),
                       random_tensor({s.B, s.S, s.Hkv, s.D}, 3)},
            .names = {"q", "k", "v"},
            .tolerance = 2e-5});
}

TEST(Attention, MatchesReference) {
  check({2, 6, 6, 4, 4, 8}, {});
  check({2, 6, 6, 4, 2, 8}, {});
  check({1, 5, 5, 3, 1, 16}, {});
  check({2, 6, 6, 2, 2, 8}, {.kind = MaskKind::bidirectional});
  check({2, 3, 6, 2, 2, 8}, {.kind = MaskKind::bidirectional});
  check({2, 7, 7, 4, 2, 8}, {.window = 3});
  check({2, 7, 7, 4, 2, 8}, {.window = 1});
  check({2, 7, 7, 4, 2, 8}, {.window = 100});
  check({1, 70, 70, 2, 1, 8}, {.window = 33});
}

// Long enough for the CPU's tiles, whose borders are at multiples of 64 and 128.
TEST(Attention, TilesMatchReference) {
  check({2, 128, 128, 2, 1, 8}, {});
  check({1, 193, 193, 1, 1, 16}, {});
  check({1, 130, 200, 1, 1, 10}, {.kind = MaskKind::bidirectional});
  check({1, 130, 201, 1, 1, 8}, {});  // a chunk after 71 cached positions
  for (const std::int64_t window : {1, 65, 128}) check({1, 200, 200, 1, 1, 8}, {.window = window});
}

TEST(Attention, TilesTakeStridedTensors) {
  const at::Tensor qkv = random_tensor({2, 140, 3, 2, 16}, 1);  // one projection's output
  const at::Tensor q = qkv.select(2, 0), k = qkv.select(2, 1), v = qkv.select(2, 2);
  EXPECT_FALSE(q.is_contiguous());
  EXPECT_TRUE(attention(q, k, v, {}).equal(attention(q.contiguous(), k.contiguous(), v.contiguous(), {})));
}

TEST(Attention, CachedDecodingMatchesReference) {
  check({2, 1, 9, 4, 2, 8}, {});  // one new token after eight
  check({2, 3, 9, 4, 2, 8}, {});  // a chunk
  check({2, 1, 9, 4, 2, 8}, {.window = 4});
  AttentionMask mask;
  mask.query_index_BT = at::tensor({4, 7}, at::kLong).view({2, 1});
  mask.key_valid_BS = at::ones({2, 9}, at::kBool);
  mask.key_valid_BS[1].narrow(0, 0, 2).fill_(false);
  check({2, 1, 9, 4, 2, 8}, mask);
  mask.window = 2;
  check({2, 1, 9, 4, 2, 8}, mask);
}

// What decoding and speculation rely on: a query's bits do not depend on the queries and rows beside it.
TEST(Attention, FewQueriesMatchTheReferenceAndThemselvesAlone) {
  const at::NoGradGuard no_grad;
  for (const std::string& isa : cpu_isa_names()) {
    const CpuIsaScope scope(isa);
    for (const Shape& s : std::vector<Shape>{{1, 1, 5, 2, 2, 8},
                                             {3, 5, 40, 4, 2, 20},
                                             {2, 16, 33, 6, 1, 83},
                                             {2, 4, 70, 2, 2, 64},
                                             {2, 3, 300, 4, 4, 128}}) {
      for (const std::int64_t window : {0, 7}) {
        for (const bool pads : {false, true}) {
          for (const at::ScalarType dtype : {at::kFloat, at::kBFloat16}) {
            // Longer storage than what is seen, as a cache has.
            const at::Tensor q = random_tensor({s.B, s.T, s.H, s.D}, 1).to(dtype),
                             k = random_tensor({s.B, s.S + 3, s.Hkv, s.D}, 2).to(dtype).narrow(1, 0, s.S),
                             v = random_tensor({s.B, s.S + 3, s.Hkv, s.D}, 3).to(dtype).narrow(1, 0, s.S);
            AttentionMask mask;
            if (window > 0) mask.window = window;
            std::vector<std::int64_t> own;
            for (std::int64_t b = 0; b < s.B; ++b) {
              for (std::int64_t t = 0; t < s.T; ++t) own.push_back(s.S - s.T - (s.S - s.T) * b / 4 + t);
            }
            mask.query_index_BT = at::tensor(own, at::kLong).view({s.B, s.T});
            if (pads) {
              mask.key_valid_BS = at::ones({s.B, s.S}, at::kBool);
              mask.key_valid_BS[0].narrow(0, 0, s.S - s.T).fill_(false);
            }
            ASSERT_TRUE(cpu::few_queries_fit(q, k, v, mask));
            const at::Tensor got = attention(q, k, v, mask);
            const at::Tensor want = reference::attention(q.to(at::kFloat), k.to(at::kFloat), v.to(at::kFloat), mask);
            testing::expect_near(got.to(at::kFloat), want, dtype == at::kFloat ? 1e-5 : 1e-2, isa);
            for (std::int64_t t = 0; t < s.T; ++t) {
              const std::int64_t b = t % s.B;
              AttentionMask one = mask;
              one.query_index_BT = mask.query_index_BT.narrow(0, b, 1).narrow(1, t, 1);
              if (pads) one.key_valid_BS = mask.key_valid_BS.narrow(0, b, 1);
              const auto row = [&](const at::Tensor& x) { return x.narrow(0, b, 1); };
              const at::Tensor alone = attention(row(q).narrow(1, t, 1), row(k), row(v), one);
              EXPECT_TRUE(alone.equal(row(got).narrow(1, t, 1))) << isa << " query " << t;
            }
          }
        }
      }
    }
  }
}

TEST(Attention, DocumentsDoNotSeeOneAnother) {
  AttentionMask mask;
  mask.document_BT = at::tensor({0, 0, 0, 1, 1, 1, 2, 0, 0, 0, 0, 0, 0, 0}, at::kLong).view({2, 7});
  check({2, 7, 7, 4, 2, 8}, mask);
  check({2, 7, 7, 4, 2, 8}, {.window = 2, .document_BT = mask.document_BT});
  check({2, 7, 7, 2, 2, 8}, {.kind = MaskKind::bidirectional, .document_BT = mask.document_BT});
  // The second document of a row gives what it gives alone.
  const at::Tensor q = random_tensor({1, 7, 2, 8}, 1), k = random_tensor({1, 7, 2, 8}, 2),
                   v = random_tensor({1, 7, 2, 8}, 3);
  mask.document_BT = mask.document_BT.narrow(0, 0, 1);
  const at::Tensor alone = attention(q.narrow(1, 3, 3), k.narrow(1, 3, 3), v.narrow(1, 3, 3), {});
  EXPECT_TRUE(attention(q, k, v, mask).narrow(1, 3, 3).allclose(alone, 1e-5, 1e-6));
}

// Documents of 1 to 150 positions that begin and end within tiles and at their borders, other ones in each row.
TEST(Attention, TilesKeepDocumentsApart) {
  std::vector<std::int64_t> ids;
  for (const std::vector<std::int64_t>& lengths :
       std::vector<std::vector<std::int64_t>>{{1, 63, 64, 2, 150, 20}, {129, 1, 1, 125, 44}}) {
    std::int64_t begin = 0;
    for (const std::int64_t length : lengths) {
      ids.insert(ids.end(), static_cast<std::size_t>(length), begin);
      begin += length;
    }
  }
  AttentionMask mask{.document_BT = at::tensor(ids, at::kLong).view({2, 300})};
  check({2, 300, 300, 2, 1, 8}, mask);
  mask.window = 40;
  check({2, 300, 300, 1, 1, 8}, mask);
  check({2, 300, 300, 1, 1, 8}, {.kind = MaskKind::bidirectional, .document_BT = mask.document_BT});
  // Documents that are not in order are kept apart as well, without tiles.
  check({2, 300, 300, 1, 1, 8}, {.document_BT = mask.document_BT.flip({1})});
}

TEST(Attention, PaddedRowsGiveZerosAndFiniteGradients) {
  AttentionMask mask;
  mask.key_valid_BS = at::ones({2, 6}, at::kBool);
  mask.key_valid_BS[1].narrow(0, 0, 3).fill_(false);
  check({2, 6, 6, 4, 2, 8}, mask);
  TensorList qkv;
  for (std::uint64_t i = 0; i < 3; ++i) qkv.push_back(random_tensor({2, 6, 2, 8}, i).set_requires_grad(true));
  const at::Tensor y = attention(qkv[0], qkv[1], qkv[2], mask);
  EXPECT_EQ(y[1].narrow(0, 0, 3).abs().max().item<float>(), 0.0f);
  for (const auto& g : testing::gradients({y}, {random_tensor({2, 6, 2, 8}, 9)}, qkv)) {
    EXPECT_TRUE(g.isfinite().all().item<bool>());
  }
}

TEST(Attention, RefusesHeadsThatDoNotDivide) {
  EXPECT_THROW(
      attention(random_tensor({1, 2, 3, 4}, 1), random_tensor({1, 2, 2, 4}, 1), random_tensor({1, 2, 2, 4}, 1), {}),
      Error);
}

}  // namespace
}  // namespace satformer
