#include "track/event_file.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "io/test_folder.h"

namespace satformer {
namespace {

TEST(Crc32c, KnownValue) {
  EXPECT_EQ(crc32c("123456789"), 0xe3069283u);
  EXPECT_EQ(crc32c(""), 0u);
}

TEST(EventFile, BytesAreTensorBoards) {
  // What TensorBoard 2.21 makes of Event(wall_time=1.5, step=3, summary={"a": 0.25}).
  const std::string expected(
      "\x17\0\0\0\0\0\0\0\xe7\xce\xf8\x1e"
      "\x09\0\0\0\0\0\0\xf8\x3f\x10\x03\x2a\x0a\x0a\x08\x0a\x01"
      "a\x15\0\0\x80\x3e.i\x94{",
      39);
  EXPECT_EQ(event_record({1.5, 3, {{"a", 0.25f}}}), expected);
}

TEST(EventFile, WhatIsWrittenIsReadUpToTheFirstDamage) {
  const TestFolder folder;
  EventLog log(folder.path(), 0);
  for (int step = 1; step <= 300; ++step) {
    log.add({0.5 * step, step, {{"train/loss", 1.0f / static_cast<float>(step)}, {"train/lr", 0.1f}}});
  }
  log.add({1, 301, {}});  // nothing to say
  std::vector<ScalarEvent> events = read_events(log.path());
  ASSERT_EQ(events.size(), 300u);
  EXPECT_EQ(events[299].step, 300);
  EXPECT_EQ(events[299].wall_time, 150);
  EXPECT_EQ(events[299].values[0].first, "train/loss");
  EXPECT_FLOAT_EQ(events[299].values[0].second, 1.0f / 300);
  std::string text = read_file(log.path());
  write_file_atomic(log.path(), text.substr(0, text.size() - 5));
  EXPECT_EQ(read_events(log.path()).size(), 299u);
  text[text.size() / 2] ^= 1;
  write_file_atomic(log.path(), text);
  EXPECT_LT(read_events(log.path()).size(), 200u);
  EXPECT_GT(read_events(log.path()).size(), 100u);
}

TEST(EventFile, AContinuedRunHasOneFileAndNoStepTwice) {
  const TestFolder folder;
  {
    EventLog log(folder.path(), 0);
    for (int step = 1; step <= 10; ++step) log.add({1, step, {{"x", 1}}});
  }
  write_file_atomic(folder / "events.out.tfevents.0000000001.host.1.0",
                    version_record(0) + event_record({1, 2, {{"y", 2}}}));
  {
    EventLog log(folder.path(), 6);
    log.add({2, 7, {{"x", 5}}});
    const auto events = read_events(log.path());
    ASSERT_EQ(events.size(), 8u);  // y at 2, x at 1 to 7
    EXPECT_EQ(events.back().step, 7);
    EXPECT_EQ(events.back().values[0].second, 5);
  }
  const auto files = std::distance(std::filesystem::directory_iterator(folder.path()), {});
  EXPECT_EQ(files, 1);
  EXPECT_TRUE(read_events(EventLog(folder.path(), 0).path()).empty());
}

}  // namespace
}  // namespace satformer
