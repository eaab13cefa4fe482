#include "checkpoint/file_hashes.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "io/file.h"
#include "io/test_folder.h"

namespace satformer {
namespace {

bool never(const Json&) { return false; }
bool always(const Json&) { return true; }

bool accepted(const std::string& directory, bool (*old)(const Json&)) {
  try {
    const Json record = read_hash_record(directory, "record.json", old);
    verify_hash(directory, "a", record, "record.json");
    return true;
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::checkpoint) << error.what();
    return false;
  }
}

class FileHashes : public testing::Test {
 protected:
  void SetUp() override {
    write_file_atomic(folder_ / "a", "content");
    write_hash_record(folder_.path(), "record.json", {{"step", 5}, {"name", "x"}});
    text_ = read_file(folder_ / "record.json");
  }
  // Unsynced: thousands are written.
  void put(const std::string& record) { std::ofstream(folder_ / "record.json", std::ios::binary) << record; }
  TestFolder folder_;
  std::string text_;
};

TEST_F(FileHashes, HoldsWhatWasWritten) {
  EXPECT_TRUE(accepted(folder_.path(), never));
  const Json record = read_hash_record(folder_.path(), "record.json", never);
  EXPECT_EQ(record["step"], 5);
  EXPECT_EQ(record["sha256"].size(), 2u);
  EXPECT_EQ(record["sha256"]["a"], sha256_file(folder_ / "a"));
}

TEST_F(FileHashes, NoBitOfTheRecordChangesUnnoticed) {
  for (std::size_t at = 0; at < text_.size(); ++at) {
    for (int bit = 0; bit < 8; ++bit) {
      std::string damaged = text_;
      damaged[at] = static_cast<char>(damaged[at] ^ (1 << bit));
      put(damaged);
      EXPECT_FALSE(accepted(folder_.path(), never)) << "bit " << bit << " of byte " << at;
    }
  }
  for (std::size_t size = 0; size < text_.size(); ++size) {
    put(text_.substr(0, size));
    EXPECT_FALSE(accepted(folder_.path(), never)) << "cut to " << size;
  }
}

TEST_F(FileHashes, OtherFilesAreCompared) {
  write_file_atomic(folder_ / "a", "Content");
  EXPECT_FALSE(accepted(folder_.path(), never));
  std::filesystem::remove(folder_ / "a");
  EXPECT_FALSE(accepted(folder_.path(), never));
}

TEST_F(FileHashes, OldRecordsHadNoHashOfThemselves) {
  Json record = Json::parse(text_);
  record["sha256"].erase("record.json");
  write_file_atomic(folder_ / "record.json", record.dump());
  EXPECT_TRUE(accepted(folder_.path(), always));
  EXPECT_FALSE(accepted(folder_.path(), never));
}

}  // namespace
}  // namespace satformer
