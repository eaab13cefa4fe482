#include "data/windows.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "base/random.h"

namespace satformer {

TokenWindows::TokenWindows(std::shared_ptr<const TokenShards> shards, std::int64_t seq_length)
    : shards_(std::move(shards)), seq_length_(seq_length) {
  if (seq_length < 1) fail(ExitCode::config, "seq_length = ", seq_length, " must be at least 1");
  if (const std::int64_t own = shards_->example_tokens(); own > 0 && own != seq_length) {
    fail(ExitCode::config, shards_->shard_path(0), ": the shards hold examples of ", own,
         " tokens, one a window; seq_length is ", seq_length);
  }
  std::int64_t longest = 0;
  for (std::size_t shard = 0; shard < shards_->num_shards(); ++shard) {
    const std::int64_t tokens = shards_->shard_tokens(shard);
    longest = std::max(longest, tokens);
    first_.push_back(total_);
    total_ += (tokens - 1) / seq_length;
  }
  first_.push_back(total_);
  if (total_ == 0) {
    fail(ExitCode::data, shards_->shard_path(0), ": a window of seq_length ", seq_length, " needs ", seq_length + 1,
         " tokens and ", shards_->num_shards() > 1 ? "the longest shard" : "the shard", " has ", longest);
  }
}

TokenWindows::Place TokenWindows::place(std::int64_t window) const {
  if (window < 0 || window >= total_) fail(ExitCode::internal, "window ", window, " of ", total_, " was asked for");
  const auto after = std::upper_bound(first_.begin(), first_.end(), window);
  const auto shard = static_cast<std::size_t>(after - first_.begin()) - 1;
  return {shard, (window - first_[shard]) * seq_length_};
}

void TokenWindows::read(std::int64_t window, std::span<std::int64_t> ids, std::span<TokenMark> marks) const {
  if (static_cast<std::int64_t>(ids.size()) != seq_length_ + 1 || (!marks.empty() && marks.size() != ids.size())) {
    fail(ExitCode::internal, "a window has ", seq_length_ + 1, " tokens, not ", ids.size());
  }
  const Place at = place(window);
  shards_->read(at.shard, at.offset, ids);
  if (!marks.empty()) shards_->read_marks(at.shard, at.offset, std::as_writable_bytes(marks));
}

DataOrder::DataOrder(std::int64_t num_windows, std::uint64_t seed) : num_windows_(num_windows), seed_(seed) {
  if (num_windows < 1) fail(ExitCode::data, "there are no windows to visit");
}

std::int64_t DataOrder::window(std::int64_t n) const {
  const auto stream = hash_name("data_order") + static_cast<std::uint64_t>(epoch(n));
  const Permutation order(static_cast<std::uint64_t>(num_windows_), seed_, stream);
  return static_cast<std::int64_t>(order(static_cast<std::uint64_t>(n % num_windows_)));
}

}  // namespace satformer
