// Training over ranks that are threads of this process: what the ranks of tests/distributed cannot be made to do.
#include "train/rank_step.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <set>

#include "base/test_error.h"
#include "distributed/agree.h"
#include "distributed/test_ranks.h"
#include "train/session.h"
#include "train/test_run.h"

namespace satformer {
namespace {

namespace fs = std::filesystem;
using testing_support::run_ranks;
using testing_support::TinyRun;

std::vector<std::string> train_ranks(const TinyRun& run, int size, const std::vector<std::string>& overrides,
                                     const std::function<void(int rank, TrainRequest&, TrainHooks&)>& prepare) {
  return run_ranks(size, [&](Communicator& ranks) {
    TrainRequest request;
    request.quiet = true;
    request.ranks = &ranks;
    TrainHooks hooks;
    prepare(ranks.rank(), request, hooks);
    train(run.settings(overrides), request, hooks);
  });
}

std::int64_t last_checkpoint(const TinyRun& run) {
  const auto all = RunFolder(run.run()).checkpoints();
  return all.empty() ? 0 : all.back().step;
}

TEST(RankStep, SharesCoverAStepOnce) {
  for (const std::int64_t windows : {1, 5, 12, 64}) {
    for (int size = 1; size <= windows && size < 9; ++size) {
      std::int64_t next = 0;
      for (int rank = 0; rank < size; ++rank) {
        const WindowShare share = share_of_rank(windows, rank, size);
        EXPECT_EQ(share.begin, next);
        EXPECT_GT(share.end, share.begin);
        next = share.end;
      }
      EXPECT_EQ(next, windows);
    }
  }
}

TEST(RankStep, LoadersOfAllRanksReadTheWindowsOfOne) {
  const TinyRun run;
  const auto windows =
      std::make_shared<TokenWindows>(std::make_shared<TokenShards>(run.folder / "data", "train"), 16);
  const auto order = std::make_shared<DataOrder>(windows->size(), 5);
  constexpr std::int64_t per_step = 7, steps = 12;  // past the epoch
  BatchLoader whole(windows, {.batch_size = per_step, .order = order, .position = per_step});
  std::vector<std::unique_ptr<BatchLoader>> loaders;
  for (int rank = 0; rank < 3; ++rank) {
    const WindowShare share = share_of_rank(per_step, rank, 3);
    loaders.push_back(
        std::make_unique<BatchLoader>(windows, LoaderOptions{.batch_size = 2,
                                                             .share = StepShare{per_step, share.begin, share.end},
                                                             .order = order,
                                                             .position = per_step}));
  }
  for (std::int64_t step = 0; step < steps; ++step) {
    const at::Tensor expected = whole.next().ids_BT;
    std::int64_t row = 0;
    for (const auto& loader : loaders) {
      for (std::int64_t i = 0; i < loader->batches_per_step(); ++i) {
        const at::Tensor ids = loader->next().ids_BT;
        EXPECT_LE(ids.size(0), 2);
        EXPECT_TRUE(ids.equal(expected.narrow(0, row, ids.size(0))));
        row += ids.size(0);
      }
      EXPECT_EQ(loader->position(), whole.position());
    }
    EXPECT_EQ(row, per_step);
  }
}

TEST(RankStep, OptimizerStateIsHalvedByTwoRanks) {
  const TinyRun run;
  const RunSettings settings = run.settings();
  std::vector<double> bytes(4, 0);
  const auto errors = run_ranks(2, [&](Communicator& ranks) {
    for (const bool sharded : {false, true}) {
      const auto model = make_model(settings.architecture(), settings.config().model.config, at::kCPU);
      model->parameters().initialise(3);
      const RankStep step(*model, ranks, {}, sharded);
      bytes[static_cast<std::size_t>(2 * ranks.rank() + (sharded ? 1 : 0))] = step.optimizer_bytes();
    }
  });
  for (const std::string& error : errors) EXPECT_EQ(error, "");
  for (const std::size_t rank : {0u, 1u}) {
    EXPECT_LE(bytes[2 * rank + 1] / bytes[2 * rank], 0.51);
    EXPECT_GE(bytes[2 * rank + 1] / bytes[2 * rank], 0.49);
  }
  EXPECT_EQ(bytes[1] + bytes[3], bytes[0]);
}

// Whatever is not finite on one rank stops all of them before the update and is named with rank and parameter.
TEST(RankStep, NotFiniteOnOneRankStopsAllBeforeTheUpdate) {
  for (const int bad : {0, 1}) {
    for (const int zero : {0, 1}) {
      for (const float value : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
        const TinyRun run;
        const auto errors =
            train_ranks(run, 2, {concat("training.zero=", zero)}, [&](int rank, TrainRequest&, TrainHooks& hooks) {
              if (rank != bad) return;
              hooks.on_step = [value](Model& model, std::int64_t step) {
                if (step != 7) return;
                model.parameters().list()[1].value.detach().view({-1})[0].fill_(value);
              };
            });
        for (const std::string& error : errors) {
          EXPECT_NE(error.find("step 8: loss"), std::string::npos) << error;
          EXPECT_NE(error.find(concat("rank ", bad, ": loss")), std::string::npos) << error;
          EXPECT_EQ(error.find(concat("rank ", 1 - bad, ": ")), std::string::npos) << error;
          EXPECT_NE(error.find("step-00000005', is finite"), std::string::npos) << error;
        }
        EXPECT_EQ(last_checkpoint(run), 5);
        // It goes on from there.
        const auto again = train_ranks(run, 2, {concat("training.zero=", zero)},
                                       [](int, TrainRequest& request, TrainHooks&) { request.resume = "auto"; });
        for (const std::string& error : again) EXPECT_EQ(error, "");
        EXPECT_EQ(last_checkpoint(run), 20);
      }
    }
  }
}

TEST(RankStep, AThrowingRankStopsAllAndIsNamed) {
  for (const int bad : {0, 1}) {
    const TinyRun run;
    const auto errors = train_ranks(run, 2, {}, [&](int rank, TrainRequest&, TrainHooks& hooks) {
      if (rank != bad) return;
      hooks.on_step = [](Model&, std::int64_t step) {
        if (step == 6) fail(ExitCode::data, "no more windows");
      };
    });
    EXPECT_EQ(errors[static_cast<std::size_t>(bad)], "no more windows");
    EXPECT_EQ(errors[static_cast<std::size_t>(1 - bad)], concat("rank ", bad, " failed: no more windows"));
    EXPECT_EQ(last_checkpoint(run), 5);
  }
}

TEST(RankStep, AStopOnOneRankSavesOnceOnAll) {
  for (const int asked : {0, 1, 2}) {
    const TinyRun run;
    const auto errors = train_ranks(run, 3, {"training.zero=1"}, [&](int rank, TrainRequest&, TrainHooks& hooks) {
      if (rank != asked) return;
      auto calls = std::make_shared<int>(0);
      hooks.stop = [calls] { return ++*calls > 7; };
    });
    for (const std::string& error : errors) EXPECT_EQ(error, "");
    EXPECT_EQ(last_checkpoint(run), 7);
  }
}

}  // namespace
}  // namespace satformer
