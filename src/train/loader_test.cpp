#include "train/loader.h"

#include <gtest/gtest.h>

#include <set>
#include <sstream>

#include "base/error.h"
#include "train/test_run.h"

namespace satformer {
namespace {

using testing_support::TinyRun;

std::shared_ptr<const TokenWindows> windows_of(const TinyRun& run) {
  return std::make_shared<TokenWindows>(std::make_shared<TokenShards>(run.folder / "data", "train"), 16);
}

TEST(Loader, TargetsAreTheNextIds) {
  const TinyRun run;
  const auto windows = windows_of(run);
  const std::int64_t numbers[] = {0, windows->size() - 1};
  const Batch batch = read_batch(*windows, numbers);
  std::vector<std::int64_t> window(17);
  for (std::int64_t row = 0; row < 2; ++row) {
    windows->read(numbers[row], window);
    for (std::int64_t t = 0; t < 16; ++t) {
      EXPECT_EQ(batch.ids_BT[row][t].item<std::int64_t>(), window[static_cast<std::size_t>(t)]);
      EXPECT_EQ(batch.targets_BT[row][t].item<std::int64_t>(), window[static_cast<std::size_t>(t) + 1]);
    }
  }
}

TEST(Loader, InnerTargetsLeaveOutTheLast) {
  const TinyRun run;
  const auto windows = windows_of(run);
  const std::int64_t numbers[] = {3, 1};
  BatchTargets inner_targets;
  inner_targets.inner = true;
  const Batch outer = read_batch(*windows, numbers), inner = read_batch(*windows, numbers, inner_targets);
  EXPECT_TRUE(inner.ids_BT.equal(outer.ids_BT));
  EXPECT_TRUE(inner.targets_BT.narrow(1, 0, 15).equal(outer.targets_BT.narrow(1, 0, 15)));
  EXPECT_TRUE(inner.targets_BT.select(1, 15).eq(-100).all().item<bool>());
}

TEST(Loader, EveryEpochVisitsEachWindowOnceInAnotherOrder) {
  const TinyRun run;
  const auto windows = windows_of(run);
  const std::int64_t n = windows->size();
  ASSERT_EQ(n, 699 / 16 + 499 / 16);
  const std::string log = run.folder / "windows.log";
  LoaderOptions options;
  options.batch_size = 1;
  options.order = std::make_shared<DataOrder>(n, 5);
  options.window_log = log;
  {
    BatchLoader loader(windows, options);
    for (std::int64_t i = 0; i < 2 * n; ++i) loader.next();
    EXPECT_EQ(loader.position(), 2 * n);
    EXPECT_EQ(loader.epoch(), 2);
  }
  std::istringstream lines(read_file(log));
  std::vector<std::string> order[2];
  for (std::string epoch, shard, offset; lines >> epoch >> shard >> offset;) {
    order[epoch == "0" ? 0 : 1].push_back(shard + ":" + offset);
  }
  for (const auto& places : order) {
    EXPECT_EQ(places.size(), static_cast<std::size_t>(n));
    EXPECT_EQ(std::set<std::string>(places.begin(), places.end()).size(), static_cast<std::size_t>(n));
  }
  EXPECT_NE(order[0], order[1]);
}

TEST(Loader, PositionIsTheWholeState) {
  const TinyRun run;
  const auto windows = windows_of(run);
  LoaderOptions options;
  options.batch_size = 3;
  options.order = std::make_shared<DataOrder>(windows->size(), 11);
  BatchLoader whole(windows, options);
  for (int i = 0; i < 30; ++i) whole.next();
  options.position = whole.position();
  BatchLoader resumed(windows, options);
  for (int i = 0; i < 30; ++i) {
    const Batch a = whole.next(), b = resumed.next();
    ASSERT_TRUE(a.ids_BT.equal(b.ids_BT) && a.targets_BT.equal(b.targets_BT)) << i;
  }
  EXPECT_EQ(whole.position(), resumed.position());
}

}  // namespace
}  // namespace satformer
