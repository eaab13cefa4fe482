// Token shards: raw little-endian ids, `<prefix>_00000.bin`, a document's tokens then EOS, as the SATFormer authors'
// files are (uint16). `manifest.json` beside them declares 4-byte ids, the tokenizer and the sha256 of each file;
// without a manifest files are uint16. Any `<prefix>*.bin` is read, in sorted order.
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
// In a folder while finished shards replace those there; one that is left marks a folder nobody should read.
inline constexpr std::string_view unfinished_marker = "prepare.unfinished";

class TokenShards {
 public:
  // Opens `<dir>/<prefix>*.bin`. Errors (data): no file, an empty file, a size that is no multiple of the id width,
  // a file that differs in size from its manifest, files that only one of folder and manifest has, no such folder.
  TokenShards(const std::string& directory, const std::string& prefix);

  // SHA-256 over the names and contents of all shards: what tells these data from others. Reads every byte, shards
  // side by side. Error(data) for a shard whose content is not what its manifest says.
  std::string verify_contents() const;

  // Reads every id once; an id >= vocab_size is Error(data) with file, offset (in tokens) and the id.
  void check_ids(std::int64_t vocab_size) const;

  std::int64_t total_tokens() const { return total_; }
  std::size_t num_shards() const { return files_.size(); }
  std::int64_t shard_tokens(std::size_t shard) const;
  const std::string& shard_path(std::size_t shard) const { return files_[shard].path(); }
  int bytes_per_id() const { return width_; }
  std::string manifest_tokenizer_sha256() const { return tokenizer_sha256_; }  // empty without a manifest

  // Copies ids [offset, offset + out.size()) of one shard.
  void read(std::size_t shard, std::int64_t offset, std::span<std::int64_t> out) const;

 private:
  std::vector<MappedFile> files_;
  std::int64_t total_ = 0;
  int width_ = 2;
  std::string tokenizer_sha256_;
  std::vector<std::string> manifest_sha256_;  // of each file; empty without a manifest
};

}  // namespace satformer
