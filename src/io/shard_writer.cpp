#include "io/shard_writer.h"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <utility>

#include "base/error.h"

namespace satformer {
namespace {
constexpr std::int64_t max_pending = 16'000'000;
}

int id_width(std::int64_t vocab_size) { return vocab_size <= 65536 ? 2 : 4; }

ShardWriter::ShardWriter(Options options) : options_(std::move(options)), width_(id_width(options_.vocab_size)) {
  if (options_.shard_tokens < 2) fail(ExitCode::usage, "a shard has at least 2 tokens, not ", options_.shard_tokens);
}

void ShardWriter::append(std::span<const std::int32_t> ids) {
  for (const std::int32_t id : ids) {
    if (id < 0 || id >= options_.vocab_size) {
      fail(ExitCode::internal, "id ", id, " does not belong to a vocabulary of ", options_.vocab_size);
    }
  }
  if (spanning_) return write(ids);
  pending_.insert(pending_.end(), ids.begin(), ids.end());
  const auto size = static_cast<std::int64_t>(pending_.size());
  if (size < options_.shard_tokens && size < max_pending) return;
  if (open_) close_shard();
  spanning_ = true;
  write_pending();
}

void ShardWriter::end_document() {
  append({&options_.eos_id, 1});
  if (open_ && !spanning_ &&
      files_.back().tokens + static_cast<std::int64_t>(pending_.size()) > options_.shard_tokens) {
    close_shard();
  }
  write_pending();
  spanning_ = false;
}

void ShardWriter::write_pending() {
  write(pending_);
  pending_.clear();
}

void ShardWriter::write(std::span<const std::int32_t> ids) {
  while (!ids.empty()) {
    if (open_ && files_.back().tokens == options_.shard_tokens) close_shard();
    if (!open_) {
      char number[32];
      std::snprintf(number, sizeof number, "_%05zu.bin", files_.size());
      files_.push_back({.name = options_.prefix + number, .tokens = 0, .sha256 = {}});
      const std::filesystem::path path = std::filesystem::path(options_.directory) / files_.back().name;
      outputs_.push_back(std::make_unique<AtomicFile>(path.string()));
      hash_ = Sha256();
      open_ = true;
    }
    const auto room = static_cast<std::size_t>(options_.shard_tokens - files_.back().tokens);
    const auto part = ids.first(std::min({ids.size(), room, std::size_t{1} << 16}));
    const auto width = static_cast<std::size_t>(width_);
    encoded_.resize(part.size() * width);
    for (std::size_t i = 0; i < part.size(); ++i) {
      const auto id = static_cast<std::uint32_t>(part[i]);
      std::memcpy(encoded_.data() + i * width, &id, width);  // little-endian: the low bytes come first
    }
    outputs_.back()->write(encoded_);
    hash_.update(encoded_);
    files_.back().tokens += static_cast<std::int64_t>(part.size());
    tokens_ += static_cast<std::int64_t>(part.size());
    ids = ids.subspan(part.size());
  }
}

void ShardWriter::close_shard() {
  outputs_.back()->close_synced();
  files_.back().sha256 = hash_.hex();
  open_ = false;
}

const std::vector<ShardWriter::File>& ShardWriter::finish() {
  if (open_) close_shard();
  return files_;
}

void ShardWriter::publish() {
  for (const auto& output : outputs_) output->commit();
}

}  // namespace satformer
