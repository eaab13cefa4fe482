#include "data/windows.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "base/error.h"
#include "io/test_folder.h"

namespace satformer {
namespace {

void write_ids(const std::string& path, int count, int first = 0) {
  std::string bytes;
  for (int i = first; i < first + count; ++i) {
    bytes += static_cast<char>(i & 255);
    bytes += static_cast<char>(i >> 8);
  }
  write_file_atomic(path, bytes);
}

std::shared_ptr<const TokenShards> shards_of(const TestFolder& folder, std::initializer_list<int> sizes) {
  int shard = 0, first = 0;
  for (const int size : sizes) {
    write_ids(folder / ("train_0000" + std::to_string(shard++) + ".bin"), size, first);
    first += size;
  }
  return std::make_shared<TokenShards>(folder.path(), "train");
}

std::int64_t windows_of(int tokens, std::int64_t seq_length) {
  const TestFolder folder;
  return TokenWindows(shards_of(folder, {tokens}), seq_length).size();
}

TEST(TokenWindows, CountsAtTheBorder) {
  EXPECT_EQ(windows_of(10, 9), 1);
  EXPECT_EQ(windows_of(11, 9), 1);
  EXPECT_EQ(windows_of(18, 9), 1);
  EXPECT_EQ(windows_of(19, 9), 2);
  EXPECT_EQ(windows_of(10, 1), 9);
  EXPECT_EQ(windows_of(2, 1), 1);
}

TEST(TokenWindows, TooFewTokensNameBothNumbers) {
  for (const std::int64_t seq_length : {10, 11, 1024}) {
    try {
      windows_of(10, seq_length);
      FAIL();
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::data);
      const std::string message = error.what();
      EXPECT_NE(message.find("needs " + std::to_string(seq_length + 1) + " tokens"), std::string::npos) << message;
      EXPECT_NE(message.find("has 10"), std::string::npos) << message;
    }
  }
  const TestFolder folder;
  EXPECT_THROW(TokenWindows(shards_of(folder, {8, 9}), 9), Error);
  EXPECT_THROW(TokenWindows(shards_of(folder, {8, 9}), 0), Error);
}

TEST(TokenWindows, EveryTargetOnceAndNoShardCrossed) {
  const TestFolder folder;
  const TokenWindows windows(shards_of(folder, {10, 3, 7, 300}), 3);
  EXPECT_EQ(windows.size(), 3 + 0 + 2 + 99);
  std::vector<std::int64_t> window(4);
  for (std::int64_t i = 0; i < windows.size(); ++i) {
    windows.read(i, window);
    const auto place = windows.place(i);
    EXPECT_EQ(window[0] - window[3], -3);
    if (i < 3) {
      EXPECT_EQ(window[0], 3 * i);
    }
    if (i == 3) {
      EXPECT_EQ(window[0], 13);
    }
    if (i == 3) {
      EXPECT_EQ(place.shard, 2u);
    }
    if (i == 5) {
      EXPECT_EQ(window[0], 20);
    }
    EXPECT_EQ(place.offset % 3, 0);
  }
  EXPECT_THROW(windows.read(windows.size(), window), Error);
  EXPECT_THROW(windows.read(-1, window), Error);
  EXPECT_THROW(windows.read(0, std::span(window).first(3)), Error);
}

TEST(DataOrder, EachWindowOnceAnEpoch) {
  for (const std::int64_t size : {1, 2, 3, 7, 64, 1000}) {
    const DataOrder order(size, 42);
    for (const std::int64_t epoch : {0, 1, 5}) {
      std::vector<std::int64_t> seen;
      for (std::int64_t i = 0; i < size; ++i) {
        EXPECT_EQ(order.epoch(epoch * size + i), epoch);
        seen.push_back(order.window(epoch * size + i));
      }
      std::sort(seen.begin(), seen.end());
      std::vector<std::int64_t> all(static_cast<std::size_t>(size));
      std::iota(all.begin(), all.end(), 0);
      EXPECT_EQ(seen, all) << size << " " << epoch;
    }
  }
  EXPECT_THROW(DataOrder(0, 1), Error);
}

TEST(DataOrder, EpochsAndSeedsDiffer) {
  const auto epoch_of = [](std::uint64_t seed, std::int64_t epoch) {
    const DataOrder order(100, seed);
    std::vector<std::int64_t> windows;
    for (std::int64_t i = 0; i < 100; ++i) windows.push_back(order.window(epoch * 100 + i));
    return windows;
  };
  EXPECT_EQ(epoch_of(1, 0), epoch_of(1, 0));
  EXPECT_NE(epoch_of(1, 0), epoch_of(1, 1));
  EXPECT_NE(epoch_of(1, 1), epoch_of(1, 2));
  EXPECT_NE(epoch_of(1, 0), epoch_of(2, 0));
  EXPECT_FALSE(std::is_sorted(epoch_of(1, 0).begin(), epoch_of(1, 0).end()));
}

}  // namespace
}  // namespace satformer
