#include "compare/process.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>

#include "io/file.h"
#include "io/test_folder.h"

namespace satformer {
namespace {

// What the tests below run: this program again, with one of these alone.
TEST(DISABLED_Child, Tells) {
  const char* configured = std::getenv("SATFORMER_TRAINING__BATCH_SIZE");
  const char* other = std::getenv("SATFORMER_CPU_ISA");
  std::printf("configured %s, other %s, group %s\n", configured ? configured : "none", other ? other : "none",
              ::getpgid(0) == ::getpid() ? "own" : "shared");
}
TEST(DISABLED_Child, Sleeps) {
  std::printf("asleep\n");
  std::fflush(stdout);
  ::sleep(60);
}

ProcessSpec child(const std::string& name, const std::string& log) {
  return {{"--gtest_also_run_disabled_tests", "--gtest_filter=DISABLED_Child." + name}, log};
}

TEST(Process, RunsThisProgramWithoutConfigurationVariables) {
  const TestFolder folder;
  ::setenv("SATFORMER_TRAINING__BATCH_SIZE", "7", 1);
  ::setenv("SATFORMER_CPU_ISA", "generic", 1);
  EXPECT_EQ(run_process(child("Tells", folder / "log")), 0);
  ::unsetenv("SATFORMER_TRAINING__BATCH_SIZE");
  ::unsetenv("SATFORMER_CPU_ISA");
  EXPECT_NE(read_file(folder / "log").find("configured none, other generic, group own"), std::string::npos);
}

TEST(Process, ReportsExitCodesAndSignals) {
  const TestFolder folder;
  EXPECT_NE(run_process({{"--gtest_filter=DISABLED_Child.Sleeps", "--gtest_fail_fast", "--gtest_color=broken"},
                         folder / "log"}),
            127);
  Process process(child("Sleeps", folder / "sleep"));
  for (int i = 0; i < 500 && read_file(folder / "sleep").find("asleep") == std::string::npos; ++i) ::usleep(10000);
  EXPECT_TRUE(process.running());
  process.stop();
  while (process.running()) ::usleep(1000);
  EXPECT_EQ(process.exit_code(), 128 + SIGTERM);
}

TEST(Process, EndsWithItsOwner) {
  const TestFolder folder;
  { const Process process(child("Sleeps", folder / "sleep")); }  // returns at once, not after a minute
  SUCCEED();
}

TEST(LastLine, SkipsEmptyOnesAndRewrittenOnes) {
  const TestFolder folder;
  write_file_atomic(folder / "log", "first\nworking 10%\rworking 20%\rdone\n\n");
  EXPECT_EQ(last_line(folder / "log"), "done");
  write_file_atomic(folder / "log", std::string(200000, 'x') + "\nlast");
  EXPECT_EQ(last_line(folder / "log"), "last");
  EXPECT_EQ(last_line(folder / "absent"), "");
}

}  // namespace
}  // namespace satformer
