// Row loops over libtorch's threads. What a loop computes never depends on their number.
#pragma once

#include <cstdint>
#include <functional>

namespace satformer {

// Less is not worth another thread.
inline constexpr std::int64_t elements_worth_a_thread = 16384;

// Calls body(begin, end) over parts of [0, count) on several threads; `work` is the elements that one index touches
// and decides whether and how finely to split.
void parallel_ranges(std::int64_t count, std::int64_t work,
                     const std::function<void(std::int64_t, std::int64_t)>& body);

// How many threads a region that has work for `wanted` gets: no more than libtorch uses, and one within a region.
std::int64_t threads_for(std::int64_t wanted);
// Calls body(thread) on so many threads at once, this one as number 0; the system may give fewer. body must not
// throw.
void on_threads(std::int64_t threads, const std::function<void(std::int64_t thread)>& body);

// [0, rows) cut into blocks by `rows` alone, for sums over rows: each block sums on its own, and the blocks are added
// in order.
struct RowBlocks {
  explicit RowBlocks(std::int64_t row_count);
  std::int64_t rows, size, count;
};
// Calls body(block, begin, end) for every block.
void parallel_blocks(const RowBlocks& blocks, std::int64_t work_per_row,
                     const std::function<void(std::int64_t, std::int64_t, std::int64_t)>& body);

}  // namespace satformer
