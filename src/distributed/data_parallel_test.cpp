#include "distributed/data_parallel.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/full.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/sum.h>
#include <ATen/ops/zeros_like.h>
#include <gtest/gtest.h>

#include <cmath>

#include "distributed/test_ranks.h"

namespace satformer {
namespace {

using testing_support::run_ranks;

// Parameters of odd sizes, so that the cuts between ranks go through them. The last is never used.
struct Fixture {
  ParameterStore store{at::kCPU};
  Fixture() {
    for (const std::int64_t size : {5, 301, 1, 64, 13}) {
      store.add(concat("p", size), {size}, Init::constant(1.0), ParamKind::matrix, "mlp");
    }
    store.initialise(1);
  }
  // The gradient of element i of a parameter of n elements: (i + n) * factor, added to what is there.
  void backward(double factor) {
    at::Tensor loss;
    for (std::size_t i = 0; i + 1 < store.list().size(); ++i) {
      const Parameter& p = store.list()[i];
      const at::Tensor terms = p.value * expected(p, factor);
      loss = loss.defined() ? loss + terms.sum() : terms.sum();
    }
    loss.backward();
  }
  static at::Tensor expected(const Parameter& p, double factor) {
    return (at::arange(p.value.numel(), at::kFloat) + static_cast<double>(p.value.numel())) * factor;
  }
};

double all_ranks(int size) { return size * (size + 1) / 2.0; }  // factors 1, 2, ... added up

void check_plain(Communicator& ranks, bool overlap, std::int64_t bucket_bytes) {
  Fixture f;
  DataParallel parallel(f.store, ranks, {.sharded = false, .bucket_bytes = bucket_bytes});
  for (int step = 0; step < 2; ++step) {
    for (Parameter& p : f.store.list()) p.value.mutable_grad().reset();
    const double mine = ranks.rank() + 1;
    f.backward(mine / 4);
    if (overlap) parallel.begin_last_backward();
    f.backward(mine * 3 / 4);
    std::vector<double> scalars = {mine, 1};
    parallel.finish_backward(scalars);
    EXPECT_EQ(scalars[0], all_ranks(ranks.size()));
    EXPECT_EQ(scalars[1], ranks.size());
    const double norm = parallel.norm();
    // Until they are asked for, a rank's own gradients are as they were.
    EXPECT_TRUE(f.store.list()[1].value.grad().allclose(Fixture::expected(f.store.list()[1], mine)));
    parallel.store_gradients();
    double squares = 0;
    for (std::size_t i = 0; i + 1 < f.store.list().size(); ++i) {
      const Parameter& p = f.store.list()[i];
      const at::Tensor expected = Fixture::expected(p, all_ranks(ranks.size()));
      EXPECT_TRUE(p.value.grad().allclose(expected, 1e-6)) << p.name;
      squares += expected.to(at::kDouble).square().sum().item<double>();
    }
    EXPECT_FALSE(f.store.list().back().value.grad().defined());
    EXPECT_NEAR(norm, std::sqrt(squares), 1e-6 * norm);
  }
}

TEST(DataParallel, SumsGradientsOverRanks) {
  for (const int size : {2, 3}) {
    for (const std::int64_t bucket : {16, 400, 1 << 20}) {
      for (const bool overlap : {false, true}) {
        const auto errors = run_ranks(size, [&](Communicator& ranks) { check_plain(ranks, overlap, bucket); });
        for (const std::string& error : errors) EXPECT_EQ(error, "");
      }
    }
  }
}

TEST(DataParallel, ShardedStretchesCoverEveryElementOnceWithEqualBits) {
  for (const int size : {2, 3}) {
    std::vector<double> norms(2);
    std::vector<std::vector<at::Tensor>> of_way(2);  // plain, sharded
    const auto errors = run_ranks(size, [&](Communicator& ranks) {
      for (const bool shard : {false, true}) {
        Fixture f;
        DataParallel parallel(f.store, ranks, {.sharded = shard, .bucket_bytes = 400});
        parallel.begin_last_backward();
        f.backward(0.1 * (ranks.rank() + 1));
        std::vector<double> scalars;
        parallel.finish_backward(scalars);
        const double norm = parallel.norm();
        std::vector<at::Tensor> gradients;
        if (shard) {
          std::vector<at::Tensor> values;
          std::int64_t mine = 0;
          for (const DataParallel::Stretch& stretch : parallel.stretches()) {
            values.push_back(stretch.gradient);
            stretch.value.fill_(static_cast<float>(ranks.rank() + 2));
            mine += stretch.value.numel();
          }
          EXPECT_LE(mine, (384 + size - 1) / size + 5 * size);
          gradients = parallel.gather_stretches(values);
          parallel.gather_parameters();
          for (const Parameter& p : f.store.list()) {
            EXPECT_GE(p.value.min().item<float>(), 2) << p.name;
            EXPECT_LE(p.value.max().item<float>(), size + 1) << p.name;
          }
          EXPECT_FALSE(parallel.has_gradient(4));
          EXPECT_TRUE(parallel.has_gradient(3));
        } else {
          parallel.store_gradients();
          for (const Parameter& p : f.store.list()) {
            gradients.push_back(p.value.grad().defined() ? p.value.grad() : at::zeros_like(p.value.detach()));
          }
        }
        if (ranks.rank() == 0) {
          norms[shard] = norm;
          of_way[shard] = gradients;
        }
      }
    });
    for (const std::string& error : errors) EXPECT_EQ(error, "");
    EXPECT_EQ(norms[0], norms[1]);
    ASSERT_EQ(of_way[0].size(), 5u);
    ASSERT_EQ(of_way[1].size(), 5u);
    for (std::size_t i = 0; i < 5; ++i) EXPECT_TRUE(of_way[0][i].equal(of_way[1][i])) << i;
  }
}

TEST(DataParallel, NotFiniteOnOneRankIsSeenByAll) {
  for (const bool shard : {false, true}) {
    std::vector<double> norms(2, 0);
    run_ranks(2, [&](Communicator& ranks) {
      Fixture f;
      DataParallel parallel(f.store, ranks, {.sharded = shard});
      f.backward(ranks.rank() == 1 ? std::nan("") : 1.0);
      std::vector<double> scalars;
      parallel.finish_backward(scalars);
      norms[static_cast<std::size_t>(ranks.rank())] = parallel.norm();
    });
    EXPECT_TRUE(std::isnan(norms[0]));
    EXPECT_TRUE(std::isnan(norms[1]));
  }
}

TEST(DataParallel, ParametersOfRankZeroReachAll) {
  run_ranks(3, [&](Communicator& ranks) {
    Fixture f;
    for (Parameter& p : f.store.list()) p.value.detach().fill_(ranks.rank() + 5);
    broadcast_parameters(f.store, ranks);
    for (Parameter& p : f.store.list()) EXPECT_EQ(p.value.min().item<float>(), 5);
  });
}

}  // namespace
}  // namespace satformer
