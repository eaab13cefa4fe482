#include "eval/golden.h"

#include <gtest/gtest.h>

namespace satformer {
namespace {

class Golden : public testing::TestWithParam<std::string> {};

TEST_P(Golden, ReferenceAndFusedKernelsAgreeWithTheCase) {
  for (const Backend backend : {Backend::reference, Backend::automatic}) {
    const GoldenResult r = run_golden_case(GetParam(), backend, at::kCPU);
    EXPECT_TRUE(r.passes({})) << r.name << ": logits " << r.logits << " loss " << r.loss << " gradient " << r.gradient
                              << " (" << r.worst_gradient << ") decode " << r.decode << " trajectory "
                              << r.trajectory_loss << " " << r.trajectory_norm << " cache " << r.cache_bytes_equal;
  }
}

INSTANTIATE_TEST_SUITE_P(Cases, Golden, testing::ValuesIn(find_golden_cases({SATFORMER_TEST_DATA "/golden"})),
                         [](const auto& golden) {
                           const std::string& path = golden.param;
                           const auto slash = path.rfind('/');
                           return path.substr(slash + 1, path.size() - slash - 6);
                         });

}  // namespace
}  // namespace satformer
