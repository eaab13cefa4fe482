// Launching team programs (team.h). Included by the .cu files alone.
//
// A program is a struct of plain data with
//   static constexpr bool warp;   // a team is a warp; else a block
//   static constexpr int sums;    // of blocks only: the largest K of its sum<K, W> calls
//   SATFORMER_TEAM_PROGRAM { ... team ... }
#pragma once

#include "kernels/gpu/team.h"
#include "kernels/gpu/where.h"

#include <vector>

#ifdef __CUDACC__
#include <cuda_runtime_api.h>
#endif

namespace satformer::gpu {

inline constexpr int any_sums = 64;  // warps need no exchange

struct Grid {
  int64_t teams;
  int threads;  // of a block as a team; a multiple of 32
  int scratch;  // floats per team
};

// Threads for a row of n elements taken W at a time, two packs each.
inline int threads_for(int64_t n, int W) {
  const int64_t wanted = (n / W + 1) / 2;
  const int64_t rounded = (wanted + warp_size - 1) / warp_size * warp_size;
  return static_cast<int>(rounded < warp_size ? warp_size : (rounded > max_threads ? max_threads : rounded));
}

// Element-wise work, cut into one piece per block.
inline constexpr int piece_elements = 4096;
struct Piece {
  int64_t begin;
  int size;
  SATFORMER_HD_MEMBER Piece(int64_t index, int64_t count)
      : begin(index * piece_elements),
        size(static_cast<int>(count - begin < piece_elements ? count - begin : piece_elements)) {}
};
inline Grid pieces(int64_t count) { return {(count + piece_elements - 1) / piece_elements, 256, 0}; }

#ifdef __CUDACC__

inline constexpr int warps_per_block = 4;  // of warp teams

inline void check(cudaError_t code) {
  if (code != cudaSuccess) launch_failed(cudaGetErrorString(code));
}

template <class Program>
__global__ void __launch_bounds__(max_threads)
    run(const __grid_constant__ Program program, int64_t teams, int scratch) {
  extern __shared__ __align__(16) float shared[];
  if constexpr (Program::warp) {
    const int warp = static_cast<int>(threadIdx.x) / warp_size;
    const int64_t index = static_cast<int64_t>(blockIdx.x) * warps_per_block + warp;
    if (index >= teams) return;
    DeviceTeam<true, any_sums> team(index, teams, nullptr, shared + warp * scratch);
    program(team);
  } else {
    __shared__ double exchange[Program::sums * (max_threads / warp_size)];
    DeviceTeam<false, Program::sums> team(static_cast<int64_t>(blockIdx.x), teams, exchange, shared);
    program(team);
  }
}

template <class Program>
void launch_on_device(void* stream, const Grid& grid, const Program& program) {
  const int64_t per_block = Program::warp ? warps_per_block : 1;
  const auto blocks = static_cast<unsigned>((grid.teams + per_block - 1) / per_block);
  const auto threads = static_cast<unsigned>(Program::warp ? warps_per_block * warp_size : grid.threads);
  const auto bytes = static_cast<std::size_t>(grid.scratch) * static_cast<std::size_t>(per_block) * sizeof(float);
  if (bytes > 48U * 1024U) {
    check(cudaFuncSetAttribute(run<Program>, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(bytes)));
  }
  run<Program><<<blocks, threads, bytes, static_cast<cudaStream_t>(stream)>>>(program, grid.teams, grid.scratch);
  check(cudaGetLastError());
}

#endif

template <class Program>
void launch_on_host(const Grid& grid, const Program& program) {
  std::vector<float> scratch(static_cast<std::size_t>(grid.scratch) + 1);
  for (int64_t index = 0; index < grid.teams; ++index) {
    if constexpr (Program::warp) {
      HostTeam<any_sums> team(index, grid.teams, warp_size, scratch.data());
      program(team);
    } else {
      HostTeam<Program::sums> team(index, grid.teams, grid.threads, scratch.data());
      program(team);
    }
  }
}

// Runs grid.teams teams; nothing if there are none.
template <class Program>
void launch(const Where& where, const Grid& grid, const Program& program) {
  if (grid.teams == 0) return;
#ifdef __CUDACC__
  if (!where.host) {
    launch_on_device(where.stream, grid, program);
    return;
  }
#endif
  if (!where.host) launch_failed("this program was built without CUDA (-DSATFORMER_CUDA=ON)");
  launch_on_host(grid, program);
}

}  // namespace satformer::gpu
