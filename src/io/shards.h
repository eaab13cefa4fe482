// Token shards: raw little-endian ids, `<prefix>_00000.bin`, a document's tokens then EOS, as the SATFormer authors'
// files are (uint16). `manifest.json` beside them declares 4-byte ids, the tokenizer and the sha256 of each file;
// without a manifest files are uint16. Any `<prefix>*.bin` is read, in sorted order. A shard may have a file of marks
// beside it, one byte a token, which the manifest names.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "io/file.h"

namespace satformer {

inline constexpr std::string_view shard_format = "satformer-shards";  // "format" of the manifest
inline constexpr int shard_format_version = 1;
inline constexpr std::string_view marks_ending = ".marks";  // in place of ".bin"
// In a folder while finished shards replace those there; one that is left marks a folder nobody should read.
inline constexpr std::string_view unfinished_marker = "prepare.unfinished";

class TokenShards {
 public:
  // Opens `<dir>/<prefix>*.bin`. Errors (data): no file, an empty file, a size that is no multiple of the id width,
  // a file that differs in size from its manifest, files that only one of folder and manifest has, no such folder,
  // marks of some shards only, or marks that no manifest names.
  TokenShards(const std::string& directory, const std::string& prefix);

  // SHA-256 over the names and contents of all shards: what tells these data from others. Reads every byte, shards
  // side by side. Error(data) for a shard whose content is not what its manifest says.
  std::string verify_contents() const;

  // `kinds`: the names that the reader has for kinds of tokens; Error(data) if the manifest's are
  // others, or a mark's number is none of them.
  void check_marks(std::span<const std::string_view> kinds) const;

  // Reads every id once; an id >= vocab_size is Error(data) with file, offset (in tokens) and the id.
  void check_ids(std::int64_t vocab_size) const;

  // Whether `id` is anywhere; reads up to it.
  bool contains(std::int64_t id) const;

  std::int64_t total_tokens() const { return total_; }
  std::size_t num_shards() const { return files_.size(); }
  std::int64_t shard_tokens(std::size_t shard) const;
  const std::string& shard_path(std::size_t shard) const { return files_[shard].path(); }
  int bytes_per_id() const { return width_; }
  std::string manifest_tokenizer_sha256() const { return tokenizer_sha256_; }  // empty without a manifest

  // Copies ids [offset, offset + out.size()) of one shard.
  void read(std::size_t shard, std::int64_t offset, std::span<std::int64_t> out) const;

  bool has_marks() const { return !marks_.empty(); }
  void read_marks(std::size_t shard, std::int64_t offset, std::span<std::byte> out) const;
  // Where every example is one window: its length; else 0.
  std::int64_t example_tokens() const { return example_tokens_; }

 private:
  void open_marks(const std::string& path, const std::string& expected, const std::string& sha256);

  std::vector<MappedFile> files_, marks_;  // marks_: one for each shard, or none
  std::int64_t total_ = 0;
  int width_ = 2;
  std::string tokenizer_sha256_;
  std::vector<std::string> manifest_sha256_;  // of each file; empty without a manifest
  std::vector<std::string> marks_sha256_, kinds_;
  std::int64_t example_tokens_ = 0;
};

}  // namespace satformer
