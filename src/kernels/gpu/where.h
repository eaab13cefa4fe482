// Where a GPU program runs. Free of torch and CUDA headers: the .cu files and the operations share it.
#pragma once

namespace satformer::gpu {

struct Where {
  void* stream = nullptr;  // cudaStream_t of the current device
  bool host = false;       // on this thread instead, for tests
};

// Error(internal) with the reason.
[[noreturn]] void launch_failed(const char* reason);

// Sums over rows are made by this many teams, each over its own rows, whose results are added in order: the same on
// every device.
inline constexpr int partial_blocks = 512;
inline constexpr int partial_warps = 2048;

// The most states a program takes: their addresses travel with its arguments.
inline constexpr int max_states = 64;

// The largest scratch of a block, in floats: what every supported architecture has (99 KiB) less the exchange.
inline constexpr int max_scratch = 20 * 1024;

}  // namespace satformer::gpu
