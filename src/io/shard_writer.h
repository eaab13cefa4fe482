// Writes one split as token shards. Files keep temporary names until publish().
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "io/file.h"

namespace satformer {

// Bytes of a stored id: 2 up to a vocabulary of 65,536, else 4.
int id_width(std::int64_t vocab_size);

class ShardWriter {
 public:
  struct Options {
    std::string directory, prefix;
    std::int64_t vocab_size = 0;
    std::int64_t shard_tokens = 100'000'000;  // no shard is longer
    std::int32_t eos_id = 0;
  };
  explicit ShardWriter(Options options);

  // A document comes in any number of appends, then end_document(), which adds EOS. Documents stay within a shard;
  // only one longer than a shard, or than 16 million tokens, is cut where the shard is full. Ids outside the
  // vocabulary are Error(internal).
  void append(std::span<const std::int32_t> ids);
  void end_document();

  struct File {
    std::string name;
    std::int64_t tokens = 0;
    std::string sha256;
  };
  // Syncs what is written; no append may follow.
  const std::vector<File>& finish();
  void publish();  // after finish(): gives all files their names
  std::int64_t tokens() const { return tokens_; }

 private:
  void write(std::span<const std::int32_t> ids);
  void write_pending();
  void close_shard();

  Options options_;
  int width_;
  std::vector<std::unique_ptr<AtomicFile>> outputs_;
  std::vector<File> files_;
  Sha256 hash_;
  std::vector<std::int32_t> pending_;  // the document being appended, while it may still go to either shard
  std::vector<std::byte> encoded_;
  bool spanning_ = false;  // the document is too long to be kept back
  bool open_ = false;
  std::int64_t tokens_ = 0;
};

}  // namespace satformer
