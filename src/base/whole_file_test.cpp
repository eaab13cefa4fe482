#include "base/whole_file.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <thread>

#include "base/test_error.h"

namespace satformer {
namespace {

std::string error_of(const std::string& path) {
  return error_text([&] { read_whole(path); }, ExitCode::system);
}

TEST(WholeFile, AFileAPipeAndAnEmptyDeviceAreRead) {
  const std::string folder = ::testing::TempDir() + "whole_file";
  std::filesystem::remove_all(folder);
  std::filesystem::create_directories(folder);
  const std::string file = folder + "/file", pipe = folder + "/pipe";
  const std::string content(200000, 'x');
  std::ofstream(file) << content;
  EXPECT_EQ(read_whole(file), content);
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  std::thread writer([&] { std::ofstream(pipe) << content; });
  EXPECT_EQ(read_whole(pipe), content);
  writer.join();
  EXPECT_EQ(read_whole("/dev/null"), "");
  EXPECT_NE(error_of(folder).find("Is a directory"), std::string::npos);
  EXPECT_NE(error_of(folder + "/none").find("No such file"), std::string::npos);
}

TEST(WholeFile, ADeviceWithoutAnEndIsGivenUp) {
  const std::string error = error_of("/dev/zero");
  EXPECT_NE(error.find("cannot read '/dev/zero': File too large"), std::string::npos) << error;
}

}  // namespace
}  // namespace satformer
