#include "train/schedule.h"

#include <gtest/gtest.h>

#include <cmath>

#include "base/error.h"
#include "base/random.h"

namespace satformer {
namespace {

Schedule random_schedule(std::uint64_t i, DecayStyle style) {
  const Philox random(7, i);
  Schedule s;
  s.learning_rate = 1e-4 + random.uniform(0);
  s.min_lr = s.learning_rate * random.uniform(1);
  s.warmup_steps = static_cast<std::int64_t>(random.uniform(2) * 50);
  s.total_steps = s.warmup_steps + 1 + static_cast<std::int64_t>(random.uniform(3) * 200);
  s.style = style;
  return s;
}

TEST(Schedule, RisesInWarmupAndFallsAfterIt) {
  for (const DecayStyle style : {DecayStyle::cosine, DecayStyle::linear, DecayStyle::constant}) {
    for (std::uint64_t i = 0; i < 200; ++i) {
      const Schedule s = random_schedule(i, style);
      for (std::int64_t step = 0; step < s.total_steps + 5; ++step) {
        const double now = s.rate(step), next = s.rate(step + 1);
        ASSERT_GT(now, 0.0);
        ASSERT_LE(now, s.learning_rate * (1 + 1e-12));
        if (step + 1 < s.warmup_steps) {
          ASSERT_GT(next, now);
        } else if (step >= s.warmup_steps) {
          ASSERT_LE(next, now);
          ASSERT_GE(next, s.min_lr);
        }
      }
      if (s.warmup_steps > 0) {
        ASSERT_DOUBLE_EQ(s.rate(s.warmup_steps - 1), s.learning_rate);
      }
      ASSERT_DOUBLE_EQ(s.rate(s.warmup_steps), s.learning_rate);
    }
  }
}

TEST(Schedule, WarmupIsLinearAndStartsAboveZero) {
  const Schedule s{1.0, 0.1, 10, 100, DecayStyle::cosine};
  for (std::int64_t step = 0; step < 10; ++step) EXPECT_DOUBLE_EQ(s.rate(step), 0.1 * static_cast<double>(step + 1));
}

TEST(Schedule, EndsAtTheFloor) {
  for (const DecayStyle style : {DecayStyle::cosine, DecayStyle::linear}) {
    const Schedule s{1.0, 0.1, 10, 110, style};
    EXPECT_DOUBLE_EQ(s.rate(110), 0.1);
    EXPECT_DOUBLE_EQ(s.rate(1000000), 0.1);
    EXPECT_NEAR(s.rate(60), 0.55, 1e-12);  // half way
  }
  const Schedule constant{1.0, 0.1, 10, 110, DecayStyle::constant};
  EXPECT_DOUBLE_EQ(constant.rate(109), 1.0);
  EXPECT_DOUBLE_EQ(constant.rate(1000), 1.0);
}

TEST(Schedule, WarmupLongerThanTheRun) {
  const Schedule s{1.0, 0.1, 100, 10, DecayStyle::cosine};
  EXPECT_DOUBLE_EQ(s.rate(9), 0.1);
  EXPECT_DOUBLE_EQ(s.rate(100), 0.1);
}

TEST(Schedule, UnknownStyleNamesTheNearest) {
  try {
    decay_style("cosin");
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::config);
    EXPECT_NE(std::string(error.what()).find("cosine"), std::string::npos);
  }
}

}  // namespace
}  // namespace satformer
