#include "base/failure.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <new>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <system_error>

namespace satformer {
namespace {

TEST(Failure, KnowsWhatLibrariesThrow) {
  const auto code = [](const auto& error) { return failure_of(error).code; };
  EXPECT_EQ(code(Error(ExitCode::data, "a")), ExitCode::data);
  EXPECT_EQ(failure_of(Error(ExitCode::data, "a\nb")).message, "a\nb");
  EXPECT_EQ(code(std::bad_alloc()), ExitCode::memory);
  EXPECT_EQ(code(std::runtime_error("[enforce fail] DefaultCPUAllocator: can't allocate memory: you tried")),
            ExitCode::memory);
  EXPECT_EQ(code(std::runtime_error("CUDA out of memory. Tried to allocate")), ExitCode::memory);
  EXPECT_EQ(code(std::filesystem::filesystem_error("cannot rename", std::error_code())), ExitCode::system);
  EXPECT_EQ(code(std::system_error(std::make_error_code(std::errc::resource_unavailable_try_again))),
            ExitCode::system);
  try {
    static_cast<void>(nlohmann::json::parse("{}").get<std::string>());
  } catch (const std::exception& error) {
    EXPECT_EQ(code(error), ExitCode::data);
    EXPECT_EQ(json_problem(error), "type must be string, but is object");
  }
  const Failure other = failure_of(std::runtime_error("shapes differ\nframe #0: f()"));
  EXPECT_EQ(other.code, ExitCode::internal);
  EXPECT_EQ(other.message, "shapes differ");
}

}  // namespace
}  // namespace satformer
