#include "base/error.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <vector>

namespace satformer {
namespace {

const std::vector<std::string> names = {"hidden_size", "num_heads", "num_kv_heads", "rope_theta"};

TEST(Error, ShowsZeroBytes) { EXPECT_STREQ(Error(ExitCode::config, std::string("a\0b", 3)).what(), "a\\x00b"); }

TEST(Error, CarriesCodeAndText) {
  try {
    fail(ExitCode::data, "file ", 3, ": ", 0.5);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::data);
    EXPECT_STREQ(error.what(), "file 3: 0.5");
  }
}

TEST(Error, SystemErrorsNameActionFileAndReason) {
  try {
    fail_errno("open", "/x", ENOENT);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::system);
    EXPECT_STREQ(error.what(), "cannot open '/x': No such file or directory");
  }
}

TEST(Nearest, FindsMisspellings) {
  EXPECT_EQ(nearest("hiden_size", names), "hidden_size");
  EXPECT_EQ(nearest("hidden-size", names), "hidden_size");
  EXPECT_EQ(nearest("Hidden_Size", names), "hidden_size");
  EXPECT_EQ(nearest("num_haeds", names), "num_heads");
  EXPECT_EQ(nearest("num_kv_head", names), "num_kv_heads");
  EXPECT_EQ(nearest("rope_theta", names), "rope_theta");
}

TEST(Nearest, IsSilentAboutStrangers) {
  EXPECT_EQ(nearest("dropout", names), std::nullopt);
  EXPECT_EQ(nearest("", names), std::nullopt);
  EXPECT_EQ(nearest("x", std::vector<std::string>{}), std::nullopt);
}

TEST(DidYouMean, IsASentenceOrNothing) {
  EXPECT_EQ(did_you_mean("rope_tetha", names), " Did you mean 'rope_theta'?");
  EXPECT_EQ(did_you_mean("completely different", names), "");
}

}  // namespace
}  // namespace satformer
