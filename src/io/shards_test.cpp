#include "io/shards.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "base/test_error.h"
#include "io/shard_writer.h"
#include "io/test_folder.h"

namespace satformer {
namespace {

std::string data_error(const auto& action) { return error_text(action, ExitCode::data); }

std::string ids16(std::initializer_list<int> ids) {
  std::string bytes;
  for (const int id : ids) {
    bytes += static_cast<char>(id & 255);
    bytes += static_cast<char>(id >> 8);
  }
  return bytes;
}

std::vector<std::int64_t> all_ids(const TokenShards& shards) {
  std::vector<std::int64_t> ids;
  for (std::size_t shard = 0; shard < shards.num_shards(); ++shard) {
    std::vector<std::int64_t> part(static_cast<std::size_t>(shards.shard_tokens(shard)));
    shards.read(shard, 0, part);
    ids.insert(ids.end(), part.begin(), part.end());
  }
  return ids;
}

std::string manifest(int bytes_per_id, const std::string& files) {
  return "{\"format\":\"satformer-shards\",\"version\":1,\"bytes_per_id\":" + std::to_string(bytes_per_id) +
         ",\"tokenizer\":{\"sha256\":\"abc\"},\"files\":[" + files + "]}";
}

TEST(TokenShards, ReadsForeignUint16Files) {
  const TestFolder folder;
  write_file_atomic(folder / "train_00001.bin", ids16({5, 65535}));
  write_file_atomic(folder / "train_00000.bin", ids16({1, 2, 258}));
  write_file_atomic(folder / "val.bin", ids16({9}));
  const TokenShards shards(folder.path(), "train");
  EXPECT_EQ(shards.num_shards(), 2u);
  EXPECT_EQ(shards.total_tokens(), 5);
  EXPECT_EQ(shards.bytes_per_id(), 2);
  EXPECT_EQ(shards.manifest_tokenizer_sha256(), "");
  EXPECT_EQ(all_ids(shards), (std::vector<std::int64_t>{1, 2, 258, 5, 65535}));
  std::vector<std::int64_t> part(2);
  shards.read(0, 1, part);
  EXPECT_EQ(part, (std::vector<std::int64_t>{2, 258}));
  EXPECT_THROW(shards.read(0, 2, part), Error);
  EXPECT_EQ(TokenShards(folder.path(), "val").total_tokens(), 1);
}

TEST(TokenShards, IdsOutsideTheVocabularyAreNamed) {
  const TestFolder folder;
  std::string bytes;
  for (int i = 0; i < 40'000; ++i) bytes += ids16({7});
  write_file_atomic(folder / "train_00000.bin", bytes);
  write_file_atomic(folder / "train_00001.bin", bytes + ids16({100, 101}));
  const TokenShards shards(folder.path(), "train");
  shards.check_ids(102);
  EXPECT_TRUE(shards.contains(7) && shards.contains(101));
  EXPECT_FALSE(shards.contains(8));
  const std::string message = data_error([&] { shards.check_ids(100); });
  EXPECT_NE(message.find("train_00001.bin: id 100 at token offset 40000"), std::string::npos) << message;
  EXPECT_NE(message.find("vocabulary of 100"), std::string::npos);
}

TEST(TokenShards, RefusesWhatIsNoShard) {
  const TestFolder folder;
  EXPECT_NE(data_error([&] { TokenShards(folder.path(), "train"); }).find("no train*.bin"), std::string::npos);
  EXPECT_THROW(TokenShards(folder / "absent", "train"), Error);
  write_file_atomic(folder / "train_00000.bin", "");
  EXPECT_NE(data_error([&] { TokenShards(folder.path(), "train"); }).find("empty"), std::string::npos);
  write_file_atomic(folder / "train_00000.bin", "abc");
  EXPECT_NE(data_error([&] { TokenShards(folder.path(), "train"); }).find("3 bytes"), std::string::npos);
}

TEST(TokenShards, ManifestDecidesWidthAndSizes) {
  const TestFolder folder;
  write_file_atomic(folder / "train_00000.bin", std::string("\x70\x11\x01\0\xFF\xFF\0\0", 8));
  write_file_atomic(folder / "manifest.json", manifest(4, R"({"name":"train_00000.bin","tokens":2})"));
  {
    const TokenShards shards(folder.path(), "train");
    EXPECT_EQ(shards.bytes_per_id(), 4);
    EXPECT_EQ(shards.manifest_tokenizer_sha256(), "abc");
    EXPECT_EQ(all_ids(shards), (std::vector<std::int64_t>{70000, 65535}));
    EXPECT_NE(data_error([&] { shards.check_ids(70000); }).find("id 70000 at token offset 0"), std::string::npos);
  }
  const auto opening = [&] { TokenShards(folder.path(), "train"); };
  write_file_atomic(folder / "manifest.json", manifest(4, R"({"name":"train_00000.bin","tokens":3})"));
  EXPECT_NE(data_error(opening).find("manifest says 3"), std::string::npos);
  write_file_atomic(folder / "manifest.json", manifest(4, ""));
  EXPECT_NE(data_error(opening).find("does not list"), std::string::npos);
  write_file_atomic(folder / "manifest.json",
                    manifest(4, R"({"name":"train_00000.bin","tokens":2},{"name":"train_00001.bin","tokens":2})"));
  EXPECT_NE(data_error(opening).find("train_00001.bin is in the manifest"), std::string::npos);
  write_file_atomic(
      folder / "manifest.json",
      R"({"format":"satformer-shards","version":1,"bytes_per_id":4294967298,"tokenizer":{"sha256":""},"files":[]})");
  EXPECT_NE(data_error(opening).find("4294967298 must be 2 or 4"), std::string::npos);
  write_file_atomic(folder / "manifest.json", manifest(3, ""));
  EXPECT_NE(data_error(opening).find("must be 2 or 4"), std::string::npos);
  write_file_atomic(folder / "manifest.json", "[]");
  EXPECT_NE(data_error(opening).find("not a manifest"), std::string::npos);
  write_file_atomic(folder / "manifest.json", R"({"format":"satformer-shards","version":1})");
  EXPECT_NE(data_error(opening).find("not a manifest"), std::string::npos);
  write_file_atomic(folder / "manifest.json", R"({"format":"satformer-shards","version":2})");
  EXPECT_NE(data_error(opening).find("version 2"), std::string::npos);
}

TEST(TokenShards, ContentsAreKnownByTheirHash) {
  const TestFolder folder;
  std::vector<std::string> sums;
  const auto write = [&](int last, const std::string& recorded) {
    write_file_atomic(folder / "train_00000.bin", ids16({1, 2, 3}));
    write_file_atomic(folder / "train_00001.bin", ids16({4, last}));
    if (recorded.empty()) return;
    write_file_atomic(
        folder / "manifest.json",
        manifest(2, R"({"name":"train_00000.bin","tokens":3},{"name":"train_00001.bin","tokens":2,"sha256":")" +
                        recorded + "\"}"));
  };
  write(5, "");
  const std::string first = TokenShards(folder.path(), "train").verify_contents();
  EXPECT_EQ(first.size(), 64u);
  write(6, "");
  const std::string second = TokenShards(folder.path(), "train").verify_contents();
  EXPECT_NE(first, second);
  const std::string right = sha256_file(folder / "train_00001.bin");
  write(6, right);
  EXPECT_EQ(TokenShards(folder.path(), "train").verify_contents(), second);
  write(5, right);
  const std::string text = data_error([&] { (void)TokenShards(folder.path(), "train").verify_contents(); });
  EXPECT_NE(text.find("train_00001.bin: the token shard was changed or damaged"), std::string::npos) << text;
}

TEST(TokenShards, MissingFolderIsAMatterOfData) {
  const TestFolder folder;
  EXPECT_NE(data_error([&] { TokenShards(folder / "none", "train"); }).find("is not there"), std::string::npos);
}

TEST(TokenShards, RefusesAnUnfinishedFolder) {
  const TestFolder folder;
  write_file_atomic(folder / "train_00000.bin", ids16({1}));
  write_file_atomic(folder / std::string(unfinished_marker), "");
  EXPECT_NE(data_error([&] { TokenShards(folder.path(), "train"); }).find("unfinished"), std::string::npos);
}

TEST(ShardWriter, WidthFollowsTheVocabulary) {
  EXPECT_EQ(id_width(65'535), 2);
  EXPECT_EQ(id_width(65'536), 2);
  EXPECT_EQ(id_width(65'537), 4);
  EXPECT_EQ(id_width(70'000), 4);
  for (const std::int32_t vocab : {65'535, 65'536, 65'537, 70'000}) {
    const TestFolder folder;
    ShardWriter writer({.directory = folder.path(), .prefix = "train", .vocab_size = vocab, .eos_id = 2});
    const std::vector<std::int32_t> ids = {0, 1, vocab - 1};
    writer.append(ids);
    writer.end_document();
    EXPECT_THROW(writer.append(std::vector<std::int32_t>{vocab}), Error);
    EXPECT_THROW(writer.append(std::vector<std::int32_t>{-1}), Error);
    ASSERT_EQ(writer.finish().size(), 1u);
    const auto file = writer.finish()[0];
    EXPECT_FALSE(std::filesystem::exists(folder / file.name));
    writer.publish();
    EXPECT_EQ(std::filesystem::file_size(folder / file.name), 4u * static_cast<unsigned>(id_width(vocab)));
    EXPECT_EQ(file.sha256, sha256_file(folder / file.name));
    write_file_atomic(folder / "manifest.json",
                      manifest(id_width(vocab), R"({"name":"train_00000.bin","tokens":4})"));
    const TokenShards shards(folder.path(), "train");
    shards.check_ids(vocab);
    EXPECT_EQ(all_ids(shards), (std::vector<std::int64_t>{0, 1, vocab - 1, 2}));
  }
}

std::vector<std::int64_t> shard_sizes(std::initializer_list<int> documents, std::int64_t shard_tokens) {
  const TestFolder folder;
  ShardWriter writer(
      {.directory = folder.path(), .prefix = "t", .vocab_size = 100, .shard_tokens = shard_tokens, .eos_id = 2});
  std::vector<std::int64_t> expected;
  for (const int size : documents) {
    for (int i = 0; i < size; ++i) {
      const std::int32_t id = 10 + i % 80;
      writer.append({&id, 1});
      expected.push_back(id);
    }
    writer.end_document();
    expected.push_back(2);
  }
  writer.finish();
  writer.publish();
  std::vector<std::int64_t> sizes;
  for (const auto& file : writer.finish()) sizes.push_back(file.tokens);
  const TokenShards shards(folder.path(), "t");
  EXPECT_EQ(all_ids(shards), expected);
  EXPECT_EQ(writer.tokens(), static_cast<std::int64_t>(expected.size()));
  return sizes;
}

TEST(ShardWriter, RotatesBetweenDocuments) {
  using Sizes = std::vector<std::int64_t>;
  EXPECT_EQ(shard_sizes({4, 4, 4}, 10), (Sizes{10, 5}));
  EXPECT_EQ(shard_sizes({4, 5, 3}, 10), (Sizes{5, 10}));
  EXPECT_EQ(shard_sizes({9}, 10), (Sizes{10}));
  EXPECT_EQ(shard_sizes({10}, 10), (Sizes{10, 1}));
  EXPECT_EQ(shard_sizes({3, 25, 3, 3}, 10), (Sizes{4, 10, 10, 10, 4}));
  EXPECT_EQ(shard_sizes({0, 0, 0}, 2), (Sizes{2, 1}));
}

TEST(ShardWriter, LeavesNothingUnlessPublished) {
  const TestFolder folder;
  {
    ShardWriter writer({.directory = folder.path(), .prefix = "t", .vocab_size = 100, .eos_id = 2});
    writer.append(std::vector<std::int32_t>{1, 2, 3});
    writer.end_document();
    writer.finish();
  }
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

}  // namespace
}  // namespace satformer
