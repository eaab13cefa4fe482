#include "bench/compare_arms.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/test_error.h"

namespace satformer {
namespace {

// Answers from a list and notes the order of calls.
class ListedArm : public Arm {
 public:
  ListedArm(std::string name, std::vector<double> speeds, std::string& order)
      : name_(std::move(name)), speeds_(std::move(speeds)), order_(order) {}
  const std::string& name() const override { return name_; }
  ArmMeasurement measure(double) override {
    order_ += name_;
    const double speed = speeds_[next_ % speeds_.size()];
    return {1, speed, 100.0 * static_cast<double>(++next_)};
  }

 private:
  std::string name_;
  std::vector<double> speeds_;
  std::string& order_;
  std::size_t next_ = 0;
};

TEST(CompareArms, InterleavesAndTakesTheMedianOfPairedRatios) {
  std::string order;
  // The first value of each is the uncounted one. Ratios: 2, 2, 3, 4, 2.
  ListedArm a("A", {999, 20, 40, 30, 80, 20}, order), b("B", {1, 10, 20, 10, 20, 10}, order);
  PairOptions options;
  options.rounds = 5;
  options.max_foreign = 1;
  const PairResult result = compare_arms(a, b, options);
  EXPECT_EQ(order, "ABABBAABBAAB");
  EXPECT_EQ(result.ratio, 2);
  EXPECT_EQ(result.a, 30);
  EXPECT_EQ(result.b, 10);
  EXPECT_EQ(result.a_peak_bytes, 600);
  EXPECT_GE(result.interval.low, 2);
  EXPECT_LE(result.interval.high, 4);
  EXPECT_EQ(result.dropped, 0);
}

TEST(CompareArms, TooBusyRoundsAreRepeatedAndThenAllCount) {
  std::string order;
  ListedArm a("A", {2}, order), b("B", {1}, order);
  PairOptions options;
  options.rounds = 3;
  options.max_foreign = -1;  // none is clean
  const PairResult result = compare_arms(a, b, options);
  EXPECT_EQ(result.rounds.size(), 6u);
  EXPECT_FALSE(result.clean_enough);
  EXPECT_EQ(result.ratio, 2);
}

TEST(CommandArm, ReadsTheLastLine) {
  const ArmMeasurement m = command_arm("peer", "echo hello; echo '{\"tok_s\": 12.5, \"rss_mib\": 2}'")->measure(1);
  EXPECT_EQ(m.tokens_per_second, 12.5);
  EXPECT_EQ(m.peak_bytes, 2.0 * 1048576);
  EXPECT_NE(error_text([] { command_arm("peer", "exit 3")->measure(1); }, ExitCode::system).find("exit code 3"),
            std::string::npos);
  for (const char* line : {"5", "{}", "{\\\"tok_s\\\": 0}", "{\\\"tok_s\\\": -5}", "{\\\"tok_s\\\": \\\"5\\\"}"}) {
    const std::string command = concat("echo \"", line, "\"");
    EXPECT_NE(error_text([&] { command_arm("peer", command)->measure(1); }, ExitCode::usage).find("tok_s"),
              std::string::npos)
        << line;
  }
}

}  // namespace
}  // namespace satformer
