#include "base/progress.h"

#include <gtest/gtest.h>

#include <limits>

namespace satformer {
namespace {

TEST(Human, Bytes) {
  EXPECT_EQ(human_bytes(0), "0 B");
  EXPECT_EQ(human_bytes(1023), "1023 B");
  EXPECT_EQ(human_bytes(1536), "1.5 KiB");
  EXPECT_EQ(human_bytes(3.0 * (1 << 30)), "3.0 GiB");
}

TEST(Human, Counts) {
  EXPECT_EQ(human_count(999), "999");
  EXPECT_EQ(human_count(1500), "1.50K");
  EXPECT_EQ(human_count(128.4e6), "128.4M");
}

TEST(Human, Durations) {
  EXPECT_EQ(human_duration(12.34), "12.3s");
  EXPECT_EQ(human_duration(250), "4m10s");
  EXPECT_EQ(human_duration(7380), "2h03m");
  EXPECT_EQ(human_duration(90'000), "1d01h");
  EXPECT_EQ(human_duration(std::numeric_limits<double>::infinity()), "?");
}

TEST(ProgressLine, PipeGetsLines) {
  ::testing::internal::CaptureStderr();
  {
    ProgressLine line(1000);
    line.update("first");
    line.update("skipped");
    line.print("kept");
    line.finish("done");
  }
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "first\nkept\ndone\n");
}

}  // namespace
}  // namespace satformer
