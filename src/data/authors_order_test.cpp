#include "data/authors_order.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <thread>

#include "base/error.h"
#include "base/json.h"
#include "data/numpy_random.h"
#include "io/test_folder.h"

namespace satformer {
namespace {

std::shared_ptr<const TokenWindows> windows_of(const TestFolder& folder,
                                               const std::vector<std::int64_t>& shard_tokens,
                                               std::int64_t seq_length) {
  int number = 0;
  for (const std::int64_t tokens : shard_tokens) {
    char name[32];
    std::snprintf(name, sizeof name, "train_%05d.bin", number++);
    write_file_atomic(folder / name, std::string(static_cast<std::size_t>(tokens) * 2, '\0'));
  }
  return std::make_shared<TokenWindows>(std::make_shared<TokenShards>(folder.path(), "train"), seq_length);
}

// numpy.random.default_rng(42): integers of its bit generator, then shuffle(arange(10)).
TEST(NumpyRandom, GivesNumpysNumbers) {
  NumpyRandom random(42);
  EXPECT_EQ(random.next64(), 14276969152011380360u);
  EXPECT_EQ(random.next64(), 8095878257575067585u);
  std::vector<int> items{0, 1, 2, 3, 4, 5, 6, 7, 8, 9};
  NumpyRandom(42).shuffle(items);
  EXPECT_EQ(items, (std::vector<int>{5, 6, 0, 7, 3, 2, 4, 9, 1, 8}));
}

// The file was written by the authors' own loader over shards whose ids count up over all shards.
TEST(AuthorsOrder, IsTheirLoadersOrder) {
  const Json golden = read_json_file(SATFORMER_TEST_DATA "/data/authors_order.json");
  ASSERT_GE(golden["cases"].size(), 8u);
  for (const Json& c : golden["cases"]) {
    const auto shard_tokens = c["shard_tokens"].get<std::vector<std::int64_t>>();
    const auto seq_length = c["seq_length"].get<std::int64_t>(), batch_size = c["batch_size"].get<std::int64_t>();
    const auto ranks = c["ranks"].get<std::int64_t>(), epoch = c["epoch"].get<std::int64_t>();
    const TestFolder folder;
    const auto windows = windows_of(folder, shard_tokens, seq_length);
    const AuthorsOrder order(windows,
                             {c["seed"].get<std::uint64_t>(), batch_size, ranks, c["workers"].get<std::int64_t>()});
    std::size_t batches = SIZE_MAX;
    for (const Json& rank : c["starts"]) batches = std::min(batches, rank.size());
    ASSERT_EQ(order.epoch_windows(), static_cast<std::int64_t>(batches) * ranks * batch_size);
    std::vector<std::int64_t> expected, found;
    for (std::size_t batch = 0; batch < batches; ++batch) {
      for (const Json& rank : c["starts"]) {
        for (const Json& start : rank[batch]) expected.push_back(start.get<std::int64_t>());
      }
    }
    for (std::int64_t n = 0; n < order.epoch_windows(); ++n) {
      const auto place = windows->place(order.window(epoch * order.epoch_windows() + n));
      std::int64_t start = place.offset;
      for (std::size_t shard = 0; shard < place.shard; ++shard) start += shard_tokens[shard];
      found.push_back(start);
    }
    EXPECT_EQ(found, expected) << c["shard_tokens"].dump() << " epoch " << epoch;
  }
}

TEST(AuthorsOrder, AnyPositionInAnyOrderFromAnyThread) {
  const TestFolder folder;
  const auto windows = windows_of(folder, {301, 157, 230, 90}, 3);
  const AuthorsOrderOptions options{.seed = 1, .batch_size = 2, .ranks = 2, .workers = 3};
  const AuthorsOrder order(windows, options), again(windows, options);
  const std::int64_t n = 5 * order.epoch_windows();
  std::vector<std::int64_t> forward, backward;
  for (std::int64_t i = 0; i < n; ++i) forward.push_back(order.window(i));
  std::thread other([&] {
    for (std::int64_t i = 0; i < n; ++i) EXPECT_EQ(again.window(i), forward[static_cast<std::size_t>(i)]);
  });
  for (std::int64_t i = n; i-- > 0;) backward.push_back(again.window(i));
  other.join();
  std::reverse(backward.begin(), backward.end());
  EXPECT_EQ(forward, backward);
  EXPECT_EQ(order.epoch(order.epoch_windows() - 1), 0);
  EXPECT_EQ(order.epoch(order.epoch_windows()), 1);
  for (std::int64_t epoch = 0; epoch < 5; ++epoch) {
    auto begin = forward.begin() + epoch * order.epoch_windows();
    std::sort(begin, begin + order.epoch_windows());
    EXPECT_EQ(std::adjacent_find(begin, begin + order.epoch_windows()), begin + order.epoch_windows());
  }
}

TEST(AuthorsOrder, TooFewWindowsAreRefusedWithTheNumbers) {
  const TestFolder folder;
  const auto windows = windows_of(folder, {41}, 4);  // 10 windows
  EXPECT_EQ(AuthorsOrder(windows, {.batch_size = 5, .ranks = 2, .workers = 1}).epoch_windows(), 10);
  for (const AuthorsOrderOptions& options : {AuthorsOrderOptions{.batch_size = 6, .ranks = 2, .workers = 1},
                                             AuthorsOrderOptions{.batch_size = 2, .ranks = 1, .workers = 16}}) {
    try {
      AuthorsOrder(windows, options);
      FAIL();
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::data);
      EXPECT_NE(std::string(error.what()).find("10 windows give no whole batch"), std::string::npos) << error.what();
    }
  }
}

}  // namespace
}  // namespace satformer
