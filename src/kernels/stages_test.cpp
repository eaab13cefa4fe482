#include "kernels/stages.h"

#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <mutex>
#include <span>
#include <stdexcept>
#include <thread>
#include <vector>

#include "kernels/parallel.h"

namespace satformer {
namespace {

constexpr std::int64_t much_work = 1 << 20;  // of a part: enough for all threads

class StagesOnThreads : public ::testing::TestWithParam<int> {
 protected:
  void SetUp() override { at::set_num_threads(GetParam()); }
  void TearDown() override { at::set_num_threads(before_); }
  int before_ = at::get_num_threads();
};

TEST_P(StagesOnThreads, EveryPartRunsOnceAndAfterTheStageBefore) {
  for (const std::int64_t parts : {1, 2, 3, 7, 64, 1000}) {
    constexpr std::size_t count = 5;
    std::vector<std::vector<std::atomic<int>>> runs(count);
    std::atomic<std::int64_t> finished{0}, early{0};
    Stages stages;
    for (std::size_t s = 0; s < count; ++s) {
      runs[s] = std::vector<std::atomic<int>>(static_cast<std::size_t>(parts));
      stages.add(parts, much_work, [&, s](std::int64_t begin, std::int64_t end) {
        if (finished.load() < static_cast<std::int64_t>(s) * parts) ++early;
        for (std::int64_t i = begin; i < end; ++i) ++runs[s][static_cast<std::size_t>(i)];
        finished += end - begin;
      });
    }
    stages.run();
    EXPECT_EQ(early.load(), 0) << parts;
    for (const auto& stage : runs) {
      for (const auto& part : stage) EXPECT_EQ(part.load(), 1) << parts;
    }
  }
}

TEST_P(StagesOnThreads, AnIdleThreadTakesWhatABusyOneHasLeft) {
  if (GetParam() == 1) GTEST_SKIP() << "needs a second thread";
  std::atomic<bool> slow_started{false};
  std::atomic<std::int64_t> others{0};
  Stages stages;
  stages.add(64, much_work, [&](std::int64_t begin, std::int64_t end) {
    if (begin == 0) {
      slow_started = true;
      std::this_thread::sleep_for(std::chrono::milliseconds(200));
    } else {
      others += end - begin;
    }
  });
  stages.run();
  EXPECT_TRUE(slow_started.load());
  EXPECT_GT(others.load(), 32);  // more than its own half
}

TEST_P(StagesOnThreads, AThreadThatWaitsAsksForItsOwnPartOfTheNextStageThatReads) {
  if (GetParam() == 1) GTEST_SKIP() << "one thread does not wait";
  const std::vector<char> memory(64 << 10);
  std::mutex mutex;
  std::vector<std::int64_t> asked;
  const auto pause = [](std::int64_t, std::int64_t) { std::this_thread::sleep_for(std::chrono::milliseconds(20)); };
  Stages stages;
  stages.add(1, 100 * much_work, pause);
  stages.add(1, 100 * much_work, pause);
  stages.add(
      64, much_work, [](std::int64_t, std::int64_t) {},
      [&](std::int64_t first) {
        const std::lock_guard lock(mutex);
        asked.push_back(first);
        return std::span(memory).subspan(static_cast<std::size_t>(first) << 10);
      });
  stages.run();
  EXPECT_FALSE(asked.empty());
  for (const std::int64_t first : asked) {
    bool own = false;
    for (std::int64_t thread = 0; thread < GetParam(); ++thread) own = own || first == 64 * thread / GetParam();
    EXPECT_TRUE(own) << first;
  }
}

TEST_P(StagesOnThreads, TheFirstErrorIsThrownAndLaterStagesAreLeftOut) {
  bool later = false;
  Stages stages;
  stages.add(100, much_work, [](std::int64_t begin, std::int64_t end) {
    if (begin <= 50 && 50 < end) throw std::runtime_error("part 50");
  });
  stages.add(1, much_work, [&](std::int64_t, std::int64_t) { later = true; });
  EXPECT_THROW(stages.run(), std::runtime_error);
  EXPECT_FALSE(later);
}

TEST_P(StagesOnThreads, WorkInsideAParallelRegionStaysOnItsThread) {
  std::atomic<int> runs{0};
  parallel_ranges(4, much_work, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      Stages stages;
      const auto own = std::this_thread::get_id();
      stages.add(8, much_work, [&](std::int64_t from, std::int64_t to) {
        EXPECT_EQ(std::this_thread::get_id(), own);
        runs += static_cast<int>(to - from);
      });
      stages.run();
    }
  });
  EXPECT_EQ(runs.load(), 32);
}

INSTANTIATE_TEST_SUITE_P(Threads, StagesOnThreads, ::testing::Values(1, 2, 5));

TEST(Stages, NoneAndEmptyOnesAreNothingToDo) {
  Stages none;
  none.run();
  Stages empty;
  empty.add(0, 1, [](std::int64_t, std::int64_t) { FAIL(); });
  empty.run();
}

}  // namespace
}  // namespace satformer
