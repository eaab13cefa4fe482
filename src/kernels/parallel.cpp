#include "kernels/parallel.h"

#include <ATen/Parallel.h>

#include <algorithm>

#ifndef __clang__
#include <omp.h>
#else
#include <exception>
#include <mutex>

extern "C" {
int omp_get_num_threads();
int omp_get_thread_num();
int omp_in_parallel();
void GOMP_parallel(void (*function)(void*), void* data, unsigned threads, unsigned flags);
}
#endif

namespace satformer {
namespace {
constexpr std::int64_t largest_block_count = 64;

using Body = std::function<void(std::int64_t, std::int64_t)>;

#ifdef __clang__
// Clang's OpenMP has a runtime of its own, whose threads would stand beside those of libgomp, which libtorch uses. So
// libgomp is asked directly.
struct Region {
  const Body& body;
  std::int64_t count;
  std::mutex mutex = {};
  std::exception_ptr error = {};
};

void run_body(void* data) { (*static_cast<const std::function<void(std::int64_t)>*>(data))(omp_get_thread_num()); }

void run_share(void* data) {
  auto& region = *static_cast<Region*>(data);
  const std::int64_t threads = omp_get_num_threads(), share = (region.count + threads - 1) / threads;
  const std::int64_t begin = omp_get_thread_num() * share;
  if (begin >= region.count) return;
  try {
    region.body(begin, std::min(region.count, begin + share));
  } catch (...) {
    const std::lock_guard lock(region.mutex);
    if (!region.error) region.error = std::current_exception();
  }
}

void parallel_for(std::int64_t count, std::int64_t grain, const Body& body) {
  if (count <= 0) return;
  const std::int64_t threads = threads_for((count + grain - 1) / grain);
  if (threads <= 1) {
    body(0, count);
    return;
  }
  Region region{body, count};
  GOMP_parallel(run_share, &region, static_cast<unsigned>(threads), 0);
  if (region.error) std::rethrow_exception(region.error);
}
#else
void parallel_for(std::int64_t count, std::int64_t grain, const Body& body) {
  at::parallel_for(0, count, grain, [&](std::int64_t begin, std::int64_t end) { body(begin, end); });
}
#endif
}  // namespace

void parallel_ranges(std::int64_t count, std::int64_t work,
                     const std::function<void(std::int64_t, std::int64_t)>& body) {
  const std::int64_t grain = std::max<std::int64_t>(1, elements_worth_a_thread / std::max<std::int64_t>(1, work));
  parallel_for(count, grain, body);
}

std::int64_t threads_for(std::int64_t wanted) {
  if (at::in_parallel_region() || omp_in_parallel()) return 1;
  return std::clamp<std::int64_t>(wanted, 1, at::get_num_threads());
}

void on_threads(std::int64_t threads, const std::function<void(std::int64_t)>& body) {
  if (threads == 1) {
    body(0);
    return;
  }
#ifdef __clang__
  GOMP_parallel(run_body, const_cast<std::function<void(std::int64_t)>*>(&body), static_cast<unsigned>(threads), 0);
#else
#pragma omp parallel num_threads(static_cast <int>(threads))
  body(omp_get_thread_num());
#endif
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
