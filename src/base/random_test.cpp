#include "base/random.h"

#include <gtest/gtest.h>

#include <cmath>
#include <set>
#include <vector>

namespace satformer {
namespace {

// Known answers of philox4x32-10: counter words, key words, result.
TEST(Philox, KnownAnswers) {
  EXPECT_EQ(Philox(0, 0).block(0), (std::array<std::uint32_t, 4>{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(Philox(UINT64_MAX, UINT64_MAX).block(UINT64_MAX),
            (std::array<std::uint32_t, 4>{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(Philox(0x299f31d0a4093822, 0x0370734413198a2e).block(0x85a308d3243f6a88),
            (std::array<std::uint32_t, 4>{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(Philox, StreamsSeedsAndCountersDiffer) {
  std::set<std::uint64_t> seen;
  for (std::uint64_t seed = 0; seed < 4; ++seed) {
    for (std::uint64_t stream = 0; stream < 4; ++stream) {
      for (std::uint64_t counter = 0; counter < 16; ++counter) seen.insert(Philox(seed, stream).bits(counter));
    }
  }
  EXPECT_EQ(seen.size(), 256u);
}

TEST(Philox, UniformIsUniform) {
  const Philox random(42, 1);
  double sum = 0, squares = 0;
  const int count = 100'000;
  for (int i = 0; i < count; ++i) {
    const double u = random.uniform(static_cast<std::uint64_t>(i));
    ASSERT_GE(u, 0);
    ASSERT_LT(u, 1);
    sum += u;
    squares += u * u;
  }
  EXPECT_NEAR(sum / count, 0.5, 0.005);
  EXPECT_NEAR(squares / count, 1.0 / 3, 0.005);
}

TEST(Philox, NormalsAreNormal) {
  const Philox random(42, 2);
  double sum = 0, squares = 0, fourth = 0;
  const int count = 50'000;
  for (int i = 0; i < count; ++i) {
    float values[4];
    random.normals(static_cast<std::uint64_t>(i), values);
    for (const float value : values) {
      ASSERT_TRUE(std::isfinite(value));
      const double v = value;
      sum += v;
      squares += v * v;
      fourth += v * v * v * v;
    }
  }
  EXPECT_NEAR(sum / (4 * count), 0, 0.01);
  EXPECT_NEAR(squares / (4 * count), 1, 0.02);
  EXPECT_NEAR(fourth / (4 * count), 3, 0.1);
}

TEST(HashName, IsFnv1a) {
  EXPECT_EQ(hash_name(""), 0xcbf29ce484222325u);
  EXPECT_EQ(hash_name("a"), 0xaf63dc4c8601ec8cu);
  EXPECT_EQ(hash_name("foobar"), 0x85944171f73967e8u);
}

TEST(Permutation, VisitsEveryIndexOnce) {
  for (const std::uint64_t size : {1, 2, 3, 4, 5, 15, 16, 17, 100, 1023, 1024, 1025, 30'000}) {
    const Permutation permutation(size, 7, 3);
    std::vector<bool> seen(size);
    for (std::uint64_t i = 0; i < size; ++i) {
      const std::uint64_t value = permutation(i);
      ASSERT_LT(value, size);
      ASSERT_FALSE(seen[value]);
      seen[value] = true;
    }
  }
}

TEST(Permutation, LargeSizesStayInRange) {
  for (const std::uint64_t size : {std::uint64_t{1} << 40, (std::uint64_t{1} << 40) + 1, std::uint64_t{1} << 62}) {
    const Permutation permutation(size, 7, 3);
    for (std::uint64_t i = 0; i < 100; ++i) EXPECT_LT(permutation(size - 1 - i), size);
  }
}

TEST(Permutation, LooksShuffled) {
  const std::uint64_t size = 10'000;
  const Permutation first(size, 1, 0), second(size, 1, 1), third(size, 2, 0);
  int same_second = 0, same_third = 0, ascending = 0;
  double displacement = 0;
  for (std::uint64_t i = 0; i < size; ++i) {
    same_second += first(i) == second(i);
    same_third += first(i) == third(i);
    if (i > 0) ascending += first(i) > first(i - 1);
    displacement += std::abs(static_cast<double>(first(i)) - static_cast<double>(i));
  }
  EXPECT_LT(same_second, 20);
  EXPECT_LT(same_third, 20);
  EXPECT_NEAR(ascending, 5000, 300);
  EXPECT_NEAR(displacement / size, size / 3.0, 200);
}

}  // namespace
}  // namespace satformer
