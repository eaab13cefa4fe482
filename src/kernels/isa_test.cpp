#include "kernels/isa.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "base/error.h"

namespace satformer {
namespace {

using Function = void (*)(const float*, float*, std::int64_t);

// Largest error in units of the last place of the correctly rounded result, over [low, high].
double worst_ulps(Function f, double (*exact)(double), double low, double high) {
  const std::int64_t n = 200001;
  std::vector<float> x(n), y(n);
  for (std::int64_t i = 0; i < n; ++i) {
    x[static_cast<std::size_t>(i)] = static_cast<float>(low + (high - low) * static_cast<double>(i) / (n - 1));
  }
  f(x.data(), y.data(), n);
  double worst = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double want = exact(static_cast<double>(x[i]));
    const float rounded = static_cast<float>(want);
    const double ulp =
        std::fabs(static_cast<double>(std::nextafter(rounded, std::numeric_limits<float>::infinity())) -
                  static_cast<double>(rounded));
    worst = std::max(worst, std::fabs(static_cast<double>(y[i]) - want) / ulp);
  }
  return worst;
}

double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

class EveryIsa : public ::testing::TestWithParam<std::string> {
 protected:
  CpuIsaScope scope_{GetParam()};
};
INSTANTIATE_TEST_SUITE_P(Cpu, EveryIsa, ::testing::ValuesIn(cpu_isa_names()), [](const auto& i) { return i.param; });

TEST_P(EveryIsa, ElementaryFunctionsAreAccurate) {
  const auto& table = isa_table();
  EXPECT_EQ(active_cpu_isa(), GetParam());
  EXPECT_LE(worst_ulps(
                table.exp, [](double x) { return std::exp(x); }, -87, 88.7),
            2.0);
  EXPECT_LE(worst_ulps(
                table.exp, [](double x) { return std::exp(x); }, -1, 1),
            2.0);
  EXPECT_LE(worst_ulps(
                table.tanh, [](double x) { return std::tanh(x); }, -10, 10),
            2.5);
  EXPECT_LE(worst_ulps(
                table.tanh, [](double x) { return std::tanh(x); }, -1e-3, 1e-3),
            2.0);
  EXPECT_LE(worst_ulps(table.sigmoid, sigmoid, -80, 80), 3.0);
}

TEST_P(EveryIsa, ElementaryFunctionsAtTheEnds) {
  const float infinity = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
  const std::vector<float> x = {infinity, -infinity, nan, 1e4f, -1e4f, 0.0f, 89.0f, -200.0f};
  std::vector<float> e(x.size()), t(x.size()), s(x.size());
  const auto n = static_cast<std::int64_t>(x.size());
  isa_table().exp(x.data(), e.data(), n);
  isa_table().tanh(x.data(), t.data(), n);
  isa_table().sigmoid(x.data(), s.data(), n);
  EXPECT_EQ(e[0], infinity);
  EXPECT_EQ(e[1], 0.0f);
  EXPECT_TRUE(std::isnan(e[2]) && std::isnan(t[2]) && std::isnan(s[2]));
  EXPECT_EQ(e[3], infinity);
  EXPECT_EQ(e[4], 0.0f);
  EXPECT_EQ(e[5], 1.0f);
  EXPECT_EQ(e[6], infinity);
  EXPECT_EQ(e[7], 0.0f);
  EXPECT_EQ(t[0], 1.0f);
  EXPECT_EQ(t[1], -1.0f);
  EXPECT_EQ(t[5], 0.0f);
  EXPECT_EQ(s[0], 1.0f);
  EXPECT_EQ(s[1], 0.0f);
  EXPECT_EQ(s[5], 0.5f);
}

TEST(Isa, Bf16RoundsToNearestEven) {
  const auto bits = [](float x) {
    rows::bf16 b;
    rows::store(&b, x);
    return b.bits;
  };
  EXPECT_EQ(bits(1.0f), 0x3f80);
  EXPECT_EQ(bits(1.00390625f), 0x3f80);  // halfway, even below
  EXPECT_EQ(bits(1.01171875f), 0x3f82);  // halfway, even above
  EXPECT_EQ(bits(1.00390637f), 0x3f81);  // just above halfway
  EXPECT_EQ(bits(3.4e38f), 0x7f80);      // rounds up to infinity
  EXPECT_EQ(bits(-std::numeric_limits<float>::infinity()), 0xff80);
  EXPECT_TRUE(std::isnan(rows::rounded_to<rows::bf16>(std::numeric_limits<float>::quiet_NaN())));
}

TEST(Isa, UnknownNamesAreRefusedWithTheChoices) {
  try {
    CpuIsaScope scope("sse9");
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ExitCode::usage);
    EXPECT_NE(std::string(e.what()).find("generic"), std::string::npos);
  }
}

}  // namespace
}  // namespace satformer
