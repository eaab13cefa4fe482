// Training windows over token shards, and the order in which they are visited.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "data/window_source.h"
#include "io/shards.h"

namespace satformer {

// Non-overlapping windows of seq_length + 1 ids that share their border id: window i of a shard starts at
// i*seq_length, so that every window has seq_length inputs and seq_length targets. Windows never cross shards.
class TokenWindows : public WindowSource {
 public:
  // Errors: data (fewer tokens than one window, with both numbers), config (the shards hold examples of another
  // length, one a window).
  TokenWindows(std::shared_ptr<const TokenShards> shards, std::int64_t seq_length);
  std::int64_t size() const override { return total_; }
  std::int64_t seq_length() const override { return seq_length_; }
  bool has_marks() const override { return shards_->has_marks(); }
  using WindowSource::read;
  void read(std::int64_t window, std::span<std::int64_t> ids, std::span<TokenMark> marks) const override;
  Place place(std::int64_t window) const override;
  std::size_t num_shards() const { return first_.size() - 1; }
  std::int64_t first_window(std::size_t shard) const { return first_[shard]; }
  std::int64_t shard_windows(std::size_t shard) const { return first_[shard + 1] - first_[shard]; }

 private:
  std::shared_ptr<const TokenShards> shards_;
  std::int64_t seq_length_;
  std::vector<std::int64_t> first_;  // first window number of each shard, then the total
  std::int64_t total_ = 0;
};

// The n-th window ever visited, n counted over epochs. The only state is n itself, which checkpoints store.
class WindowOrder {
 public:
  virtual ~WindowOrder() = default;
  virtual std::int64_t window(std::int64_t n) const = 0;  // thread-safe
  virtual std::int64_t epoch(std::int64_t n) const = 0;
};

// A fresh seeded permutation of all windows each epoch.
class DataOrder : public WindowOrder {
 public:
  DataOrder(std::int64_t num_windows, std::uint64_t seed);
  std::int64_t window(std::int64_t n) const override;
  std::int64_t epoch(std::int64_t n) const override { return n / num_windows_; }

 private:
  std::int64_t num_windows_;
  std::uint64_t seed_;
};

}  // namespace satformer
