// Team programs: what a team of GPU threads does with rows, written once and run in two ways. On a GPU a team is a
// warp or a block of threads (launch.h); on the host the same program runs thread after thread, with every sum in the
// order that the GPU adds in. So tests without a GPU hold the programs to their references, reductions included.
//
// A program is uniform: every thread takes the same path. Threads differ only inside what is passed to these members.
//   each<W>(n, f)     f(i) for i = 0, W, 2W, ... < n (W divides n). An index belongs to the same thread in every
//                     each<W> and sum<K, W>, so scratch that is indexed so needs no sync.
//   sum<K, W>(n, f)   f(i, part) adds to the K values of `part`; the totals come back to all threads. Fixed order.
//   max(n, f)         the largest f(i), n > 0.
//   once(f)           one thread calls f().
//   sync()            what threads wrote before it, others may read after it.
//   index, count      which team this is, and of how many
//   scratch           floats shared by the team; their number is the launch's choice
#pragma once

#include "kernels/row_math.h"

#include <vector>

// The head of a program's call operator. Both kinds of team may be its argument, so nvcc's check that code for both
// sides calls only such code is off for it. What else calls a team's members is a struct whose call operator has
// SATFORMER_NO_SIDE_CHECK; a lambda cannot have it.
#ifdef __CUDACC__
#define SATFORMER_TEAM_PROGRAM                           \
  _Pragma("nv_exec_check_disable") template <class Team> \
  __host__ __device__ void operator()(Team& team) const
#define SATFORMER_HD_MEMBER __host__ __device__
#define SATFORMER_NO_SIDE_CHECK _Pragma("nv_exec_check_disable")
#else
#define SATFORMER_NO_SIDE_CHECK
#define SATFORMER_TEAM_PROGRAM \
  template <class Team>        \
  void operator()(Team& team) const
#define SATFORMER_HD_MEMBER
#endif

namespace satformer::gpu {

inline constexpr int warp_size = 32;
inline constexpr int max_threads = 512;  // of a team

template <int K, class A = float>
struct Sums {
  A v[K] = {};
};

// W neighbouring elements, moved in one access. The address is a multiple of their size.
template <int W>
struct Pack {
  float v[W];
};

template <int W, class T>
SATFORMER_HD Pack<W> load_pack(const T* p) {
  struct alignas(sizeof(T) * W) Raw {
    T v[W];
  };
  const Raw raw = *reinterpret_cast<const Raw*>(p);
  Pack<W> pack;
  for (int w = 0; w < W; ++w) pack.v[w] = rows::load(raw.v[w]);
  return pack;
}

template <int W, class T>
SATFORMER_HD void store_pack(T* p, const Pack<W>& pack) {
  struct alignas(sizeof(T) * W) Raw {
    T v[W];
  };
  Raw raw;
  for (int w = 0; w < W; ++w) rows::store(&raw.v[w], pack.v[w]);
  *reinterpret_cast<Raw*>(p) = raw;
}

// Runs a team's threads one after another; every other time backwards, so that a program that depends on the order of
// threads within one call fails its tests. MaxSums: the largest K.
template <int MaxSums>
class HostTeam {
 public:
  HostTeam(int64_t team, int64_t teams, int threads, float* shared)
      : index(team), count(teams), scratch(shared), threads_(threads) {}

  const int64_t index, count;
  float* const scratch;

  template <int W, class F>
  void each(int n, F f) {
    in_turn([&](int t) {
      for (int i = t * W; i < n; i += threads_ * W) f(i);
    });
  }

  template <int K, int W, class A = float, class F>
  Sums<K, A> sum(int n, F f) {
    static_assert(K <= MaxSums);
    std::vector<Sums<K, A>> part(static_cast<std::size_t>(threads_)), next(part.size());
    in_turn([&](int t) {
      for (int i = t * W; i < n; i += threads_ * W) f(i, part[static_cast<std::size_t>(t)].v);
    });
    for (int offset = warp_size / 2; offset > 0; offset /= 2) {
      for (std::size_t t = 0; t < part.size(); ++t) {
        for (int k = 0; k < K; ++k) next[t].v[k] = part[t].v[k] + part[t ^ static_cast<std::size_t>(offset)].v[k];
      }
      part.swap(next);
    }
    Sums<K, A> total = part[0];
    for (std::size_t t = warp_size; t < part.size(); t += warp_size) {
      for (int k = 0; k < K; ++k) total.v[k] += part[t].v[k];
    }
    return total;
  }

  template <class F>
  float max(int n, F f) {
    float largest = f(0);
    for (int i = 1; i < n; ++i) {
      const float v = f(i);
      largest = largest < v ? v : largest;
    }
    return largest;
  }

  template <class F>
  void once(F f) {
    f();
  }
  void sync() {}

 private:
  template <class F>
  void in_turn(F f) {
    for (int t = 0; t < threads_; ++t) f(backwards_ ? threads_ - 1 - t : t);
    backwards_ = !backwards_;
  }

  int threads_;
  bool backwards_ = false;
};

#ifdef __CUDACC__

// A warp (Warp) or all threads of a block, whose `exchange` holds MaxSums values for each warp.
template <bool Warp, int MaxSums>
class DeviceTeam {
 public:
  __device__ DeviceTeam(int64_t team, int64_t teams, double* exchange, float* shared)
      : index(team),
        count(teams),
        scratch(shared),
        exchange_(exchange),
        thread_(Warp ? static_cast<int>(threadIdx.x) % warp_size : static_cast<int>(threadIdx.x)),
        threads_(Warp ? warp_size : static_cast<int>(blockDim.x)) {}

  const int64_t index, count;
  float* const scratch;

  template <int W, class F>
  __device__ void each(int n, F f) {
    for (int i = thread_ * W; i < n; i += threads_ * W) f(i);
  }

  template <int K, int W, class A = float, class F>
  __device__ Sums<K, A> sum(int n, F f) {
    static_assert(K <= MaxSums);
    Sums<K, A> s;
    for (int i = thread_ * W; i < n; i += threads_ * W) f(i, s.v);
#pragma unroll
    for (int k = 0; k < K; ++k) {
#pragma unroll
      for (int offset = warp_size / 2; offset > 0; offset /= 2) {
        s.v[k] += __shfl_xor_sync(0xffffffffU, s.v[k], offset);
      }
    }
    if (Warp || threads_ == warp_size) return s;
    A* x = reinterpret_cast<A*>(exchange_);
    __syncthreads();  // the exchange before this one has been read
    if (thread_ % warp_size == 0) {
#pragma unroll
      for (int k = 0; k < K; ++k) x[thread_ / warp_size * K + k] = s.v[k];
    }
    __syncthreads();
#pragma unroll
    for (int k = 0; k < K; ++k) {
      s.v[k] = x[k];
      for (int w = 1; w < threads_ / warp_size; ++w) s.v[k] += x[w * K + k];
    }
    return s;
  }

  template <class F>
  __device__ float max(int n, F f) {
    float largest = f(thread_ < n ? thread_ : 0);
    for (int i = thread_ + threads_; i < n; i += threads_) largest = fmaxf(largest, f(i));
#pragma unroll
    for (int offset = warp_size / 2; offset > 0; offset /= 2) {
      largest = fmaxf(largest, __shfl_xor_sync(0xffffffffU, largest, offset));
    }
    if (Warp || threads_ == warp_size) return largest;
    float* x = reinterpret_cast<float*>(exchange_);
    __syncthreads();
    if (thread_ % warp_size == 0) x[thread_ / warp_size] = largest;
    __syncthreads();
    largest = x[0];
    for (int w = 1; w < threads_ / warp_size; ++w) largest = fmaxf(largest, x[w]);
    return largest;
  }

  template <class F>
  __device__ void once(F f) {
    if (thread_ == 0) f();
  }
  __device__ void sync() {
    if (Warp) {
      __syncwarp();
    } else {
      __syncthreads();
    }
  }

 private:
  double* exchange_;
  int thread_, threads_;
};

#endif

}  // namespace satformer::gpu
