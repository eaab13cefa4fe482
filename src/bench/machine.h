// What this machine can do, and who else is using it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace satformer {

struct MachineLimits {
  std::string cpu;  // model name, instruction set in use
  int threads = 0;
  double fma_flops = 0;   // fp32 multiply-adds from registers, all threads, no less than gemm_flops
  double gemm_flops = 0;  // fp32 2048^3 product by libtorch
  double gemm_bf16_flops = 0;
  double read_bytes = 0;  // bytes/s of summing an array far larger than the caches
};
// The fastest of some ways of reading memory in order, each thread a part of its own: its mean rate.
class ReadingRate {
 public:
  explicit ReadingRate(int threads);
  double measure() const;  // bytes/s; takes half a second

 private:
  int threads_;
  std::vector<std::uint64_t> words_;
};
// Takes about two seconds. `threads` as in at::set_num_threads.
MachineLimits measure_limits(int threads);

// CPU time that others took between two readings. Linux's /proc/stat; where it cannot be read, zero is reported.
class CpuLoad {
 public:
  // `own`: processes whose time is ours besides this one and its finished children.
  explicit CpuLoad(std::vector<int> own);
  // Share of the machine's CPU time since construction that went to others or was stolen, 0 to 1.
  double foreign_share() const;

 private:
  struct Reading {
    double wall = 0, busy = 0, own = 0;  // seconds
  };
  Reading read() const;
  std::vector<int> own_;
  Reading start_;
};

}  // namespace satformer
