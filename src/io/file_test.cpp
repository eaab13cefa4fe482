#include "io/file.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <cstring>
#include <filesystem>

#include "base/error.h"
#include "io/bulk_file.h"
#include "io/mapping_faults.h"
#include "io/test_folder.h"

namespace satformer {
namespace {

namespace fs = std::filesystem;

template <class F>
std::string system_error(F&& action) {
  try {
    action();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::system);
    return error.what();
  }
  ADD_FAILURE() << "no error";
  return {};
}

TEST(File, ReadsWhatWasWritten) {
  const TestFolder folder;
  std::string text(300'000, 'x');
  text[7] = '\0';
  write_file_atomic(folder / "a", text);
  EXPECT_EQ(read_file(folder / "a"), text);
  EXPECT_FALSE(fs::exists(folder / "a.tmp"));
  const MappedFile mapped(folder / "a");
  ASSERT_EQ(mapped.bytes().size(), text.size());
  EXPECT_EQ(std::memcmp(mapped.bytes().data(), text.data(), text.size()), 0);
}

TEST(File, EmptyFileMapsToNothing) {
  const TestFolder folder;
  write_file_atomic(folder / "a", "");
  EXPECT_TRUE(MappedFile(folder / "a").bytes().empty());
}

TEST(File, MappedFileMoves) {
  const TestFolder folder;
  write_file_atomic(folder / "a", "hello");
  MappedFile first(folder / "a");
  MappedFile second(std::move(first));
  MappedFile third;
  third = std::move(second);
  EXPECT_EQ(third.bytes().size(), 5u);
}

TEST(FileDeathTest, AMappedFileThatIsCutWhileItIsReadIsNamed) {
  const TestFolder folder;
  write_file_atomic(folder / "shard.bin", std::string(100'000, 'x'));
  const auto read_cut = [&] {
    report_mapping_faults();
    const MappedFile other(folder / "shard.bin");
    const MappedFile moved = MappedFile(folder / "shard.bin");
    ASSERT_EQ(::truncate((folder / "shard.bin").c_str(), 10), 0);
    volatile const std::byte* data = moved.bytes().data();
    static_cast<void>(data[50'000]);
  };
  EXPECT_EXIT(read_cut(), ::testing::ExitedWithCode(6), "cannot read '.*shard.bin': it became shorter");
  const auto read_elsewhere = [&] {
    report_mapping_faults();
    { const MappedFile gone(folder / "shard.bin"); }
    ::raise(SIGBUS);
  };
  EXPECT_EXIT(read_elsewhere(), ::testing::KilledBySignal(SIGBUS), "");
}

// Within its last page a cut file reads as zeros.
TEST(File, AMappedFileThatIsCutWithinAPageIsNoticed) {
  const TestFolder folder;
  write_file_atomic(folder / "a", std::string(10'000, 'x'));
  const MappedFile file(folder / "a");
  check_not_cut(file);
  ASSERT_EQ(::truncate((folder / "a").c_str(), 9'000), 0);
  ASSERT_EQ(file.bytes()[9'500], std::byte{0});
  EXPECT_NE(system_error([&] { check_not_cut(file); }).find("became shorter"), std::string::npos);
  fs::remove(folder / "a");
  check_not_cut(file);
}

TEST(File, ErrorsNameFileAndReason) {
  const TestFolder folder;
  const std::string missing = folder / "missing";
  EXPECT_EQ(system_error([&] { read_file(missing); }), "cannot open '" + missing + "': No such file or directory");
  EXPECT_NE(system_error([&] { MappedFile file(missing); }).find(missing), std::string::npos);
  EXPECT_NE(system_error([&] { read_file(folder.path()); }).find("Is a directory"), std::string::npos);
  EXPECT_NE(system_error([&] { AtomicFile file(folder / "no/such/file"); }).find("no/such/file"), std::string::npos);
  write_file_atomic(folder / "a", "");
  EXPECT_NE(system_error([&] { make_directories(folder / "a"); }).find("Not a directory"), std::string::npos);
  EXPECT_NE(system_error([&] { make_directories(folder / "a/b"); }).find("a/b"), std::string::npos);
}

TEST(File, FullDiskIsReported) {
  if (!fs::exists("/dev/full")) GTEST_SKIP();
  AppendFile full("/dev/full");
  EXPECT_NE(system_error([&] { full.append("x"); }).find("No space left"), std::string::npos);
}

TEST(AtomicFile, LeavesTheOldFileWithoutCommit) {
  const TestFolder folder;
  write_file_atomic(folder / "a", "old");
  {
    AtomicFile file(folder / "a");
    file.write("new");
    EXPECT_EQ(file.size(), 3u);
    EXPECT_EQ(read_file(folder / "a"), "old");
  }
  EXPECT_EQ(read_file(folder / "a"), "old");
  EXPECT_FALSE(fs::exists(folder / "a.tmp"));
}

TEST(AtomicFile, CommitsAfterClose) {
  const TestFolder folder;
  AtomicFile file(folder / "a");
  file.write("new");
  file.close_synced();
  EXPECT_FALSE(fs::exists(folder / "a"));
  file.commit();
  EXPECT_EQ(read_file(folder / "a"), "new");
}

TEST(BulkFile, WritesAndHashesAnySize) {
  const TestFolder folder;
  constexpr std::size_t block = std::size_t{1} << 20;
  // On a disk, where blocks may go past the cache, and in memory.
  for (const std::string& place : {folder.path(), std::string("/dev/shm")}) {
    if (!fs::is_directory(place)) continue;
    const std::string path = place + "/satformer_bulk_file_test";
    for (const std::size_t size : {std::size_t{0}, std::size_t{1}, block - 1, block, block + 1, 3 * block + 12345}) {
      std::string text(size, 'x');
      for (std::size_t i = 0; i < size; ++i) text[i] = static_cast<char>(i * 31 + i / 4093);
      BulkFile file(path);
      file.write(std::string_view(text).substr(0, size / 3));
      file.write(std::string_view(text).substr(size / 3));
      EXPECT_FALSE(fs::exists(path));
      Sha256 hash;
      hash.update(text);
      EXPECT_EQ(file.commit(), hash.hex());
      EXPECT_TRUE(read_file(path) == text) << place << ' ' << size;
      fs::remove(path);
    }
  }
}

TEST(BulkFile, ADiskThatFillsUpIsReportedAndLeavesNothing) {
  const TestFolder folder;
  std::signal(SIGXFSZ, SIG_IGN);
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  for (const rlim_t limit : {rlim_t{100}, rlim_t{1} << 20, (rlim_t{1} << 20) + 1000, rlim_t{5} << 19}) {
    const rlimit low{limit, before.rlim_max};
    ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &low), 0);
    const std::string message = system_error([&] {
      BulkFile file(folder / "big");
      file.write(std::string(4'000'000, 'x'));
      file.commit();
    });
    ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &before), 0);
    EXPECT_NE(message.find("File too large"), std::string::npos) << message;
    EXPECT_TRUE(fs::is_empty(folder.path())) << limit;
  }
}

TEST(AppendFile, Appends) {
  const TestFolder folder;
  { AppendFile(folder / "log").append("a\n"); }
  { AppendFile(folder / "log").append("b\n"); }
  EXPECT_EQ(read_file(folder / "log"), "a\nb\n");
}

std::string sha256(std::string_view text, std::size_t step) {
  Sha256 hash;
  for (std::size_t at = 0; at < text.size(); at += step) hash.update(text.substr(at, step));
  return hash.hex();
}

// The examples of FIPS 180-4.
TEST(Sha256, KnownValues) {
  EXPECT_EQ(Sha256().hex(), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(sha256("abc", 1), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  const std::string two_blocks = "abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq";
  EXPECT_EQ(sha256(two_blocks, 7), "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  EXPECT_EQ(sha256(std::string(1'000'000, 'a'), 999),
            "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

TEST(Sha256, FileEqualsText) {
  const TestFolder folder;
  write_file_atomic(folder / "a", "abc");
  EXPECT_EQ(sha256_file(folder / "a"), sha256("abc", 3));
}

}  // namespace
}  // namespace satformer
