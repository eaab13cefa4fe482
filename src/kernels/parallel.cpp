#include "kernels/parallel.h"

#include <ATen/Parallel.h>

#include <algorithm>

namespace satformer {
namespace {
constexpr std::int64_t elements_worth_a_thread = 16384;
constexpr std::int64_t largest_block_count = 64;
}  // namespace

void parallel_ranges(std::int64_t count, std::int64_t work,
                     const std::function<void(std::int64_t, std::int64_t)>& body) {
  const std::int64_t grain = std::max<std::int64_t>(1, elements_worth_a_thread / std::max<std::int64_t>(1, work));
  at::parallel_for(0, count, grain, [&](std::int64_t begin, std::int64_t end) { body(begin, end); });
}

RowBlocks::RowBlocks(std::int64_t row_count)
    : rows(row_count),
      size(std::max<std::int64_t>(16, (row_count + largest_block_count - 1) / largest_block_count)),
      count((row_count + size - 1) / size) {}

void parallel_blocks(const RowBlocks& blocks, std::int64_t work_per_row,
                     const std::function<void(std::int64_t, std::int64_t, std::int64_t)>& body) {
  parallel_ranges(blocks.count, blocks.size * work_per_row, [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t b = first; b < last; ++b) {
      body(b, b * blocks.size, std::min(blocks.rows, (b + 1) * blocks.size));
    }
  });
}

}  // namespace satformer
