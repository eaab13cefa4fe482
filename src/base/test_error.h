// What an action's error says, for tests.
#pragma once

#include <gtest/gtest.h>

#include <string>

#include "base/error.h"

namespace satformer {

inline std::string error_text(const auto& action, ExitCode code) {
  try {
    action();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), code) << error.what();
    return error.what();
  }
  ADD_FAILURE() << "no error";
  return {};
}

}  // namespace satformer
