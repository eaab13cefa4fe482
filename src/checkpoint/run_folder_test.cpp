#include "checkpoint/run_folder.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "base/error.h"
#include "io/file.h"
#include "io/test_folder.h"

namespace satformer {
namespace {

namespace fs = std::filesystem;

class RunFolderTest : public testing::Test {
 protected:
  RunFolder folder() const { return RunFolder(root_ + "/run"); }
  static void put(const RunFolder& run, std::int64_t step, const std::string& text) {
    run.replace_folder(run.checkpoint_path(step),
                       [&](const std::string& d) { write_file_atomic(d + "/file", text); });
  }
  TestFolder test_folder_;
  std::string root_ = test_folder_.path();
};

TEST_F(RunFolderTest, ListsCompleteCheckpointsInOrder) {
  const RunFolder run = folder();
  EXPECT_TRUE(run.checkpoints().empty());
  run.create();
  for (const std::int64_t step : {200000000, 5, 1000}) put(run, step, "x");
  fs::create_directories(run.path() + "/checkpoints/.tmp-step-00000007");
  fs::create_directories(run.path() + "/checkpoints/step-x");
  std::vector<std::int64_t> steps;
  for (const auto& entry : run.checkpoints()) steps.push_back(entry.step);
  EXPECT_EQ(steps, (std::vector<std::int64_t>{5, 1000, 200000000}));
  EXPECT_EQ(fs::path(run.checkpoint_path(1000)).filename(), "step-00001000");
  run.remove_leftovers();
  EXPECT_FALSE(fs::exists(run.path() + "/checkpoints/.tmp-step-00000007"));
  run.prune(2);
  EXPECT_EQ(run.checkpoints().front().step, 1000);
  run.prune(0);
  EXPECT_EQ(run.checkpoints().size(), 2u);
}

TEST_F(RunFolderTest, FailedWriteLeavesTheOldFolder) {
  const RunFolder run = folder();
  run.create();
  put(run, 1, "old");
  const std::string target = run.checkpoint_path(1);
  EXPECT_THROW(run.replace_folder(target,
                                  [](const std::string& d) {
                                    write_file_atomic(d + "/file", "new");
                                    fail(ExitCode::system, "disk full");
                                  }),
               Error);
  EXPECT_EQ(read_file(target + "/file"), "old");
  EXPECT_EQ(std::distance(fs::directory_iterator(run.path() + "/checkpoints"), fs::directory_iterator()), 1);
  put(run, 1, "new");
  EXPECT_EQ(read_file(target + "/file"), "new");
  EXPECT_EQ(std::distance(fs::directory_iterator(run.path() + "/checkpoints"), fs::directory_iterator()), 1);
}

// Between the two renames of a file system that cannot exchange folders.
TEST_F(RunFolderTest, AFolderThatWasBeingReplacedGetsItsNameBack) {
  const RunFolder run = folder();
  run.create();
  put(run, 1, "old");
  const std::string target = run.checkpoint_path(1), old = run.path() + "/checkpoints/.tmp-old-step-00000001";
  fs::rename(target, old);
  fs::create_directories(run.path() + "/checkpoints/.tmp-step-00000001");
  run.remove_leftovers();
  EXPECT_EQ(read_file(target + "/file"), "old");
  fs::copy(target, old);
  write_file_atomic(old + "/file", "older");
  run.remove_leftovers();
  EXPECT_EQ(read_file(target + "/file"), "old");
  EXPECT_EQ(std::distance(fs::directory_iterator(run.path() + "/checkpoints"), fs::directory_iterator()), 1);
}

TEST_F(RunFolderTest, OneProcessAtATime) {
  const RunFolder run = folder();
  run.create();
  const RunLock lock(run);
  EXPECT_THROW(RunLock second(run), Error);
}

TEST_F(RunFolderTest, UnusableFolderIsNamed) {
  write_file_atomic(root_ + "/file", "x");
  try {
    RunFolder(root_ + "/file/run").create();
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::system);
    EXPECT_NE(std::string(error.what()).find(root_ + "/file"), std::string::npos);
  }
  EXPECT_GT(RunFolder(root_ + "/not/yet").free_bytes(), 0);
}

}  // namespace
}  // namespace satformer
