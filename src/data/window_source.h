// Where training windows come from: token shards (windows.h) or a generator (synthetic/windows.h).
#pragma once

#include <cstdint>
#include <span>

#include "data/token_marks.h"

namespace satformer {

// Numbered windows of seq_length + 1 ids: seq_length inputs and seq_length targets. Reading is thread-safe and the
// same window always gives the same ids.
class WindowSource {
 public:
  virtual ~WindowSource() = default;
  virtual std::int64_t size() const = 0;
  virtual std::int64_t seq_length() const = 0;
  virtual bool has_marks() const = 0;  // of tokens: kinds and targets that count
  // Both of seq_length + 1 elements; `marks` may be empty, and must be without marks. The first token of a window is
  // never a target, so that its mark never counts.
  virtual void read(std::int64_t window, std::span<std::int64_t> ids, std::span<TokenMark> marks) const = 0;
  void read(std::int64_t window, std::span<std::int64_t> ids) const { read(window, ids, {}); }

  // Where a window starts, for the window log.
  struct Place {
    std::size_t shard = 0;
    std::int64_t offset = 0;
  };
  virtual Place place(std::int64_t window) const = 0;
};

}  // namespace satformer
