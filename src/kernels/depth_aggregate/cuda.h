// Depth aggregation on a GPU (cuda.cu), for 1 and 4 ways. A block takes a token at a time, whose N states stay in the
// first-level cache between the readings: HBM sees N C in and `ways` C out forward; N C in, N C out backward. The
// gradient of the pre norms besides adds N C fp32 sums per token, which a few hundred blocks keep in the second
// level.
#pragma once

#include "kernels/gpu/where.h"
#include "kernels/row_math.h"

namespace satformer::gpu {

inline constexpr int max_ways = 4;
inline constexpr int depth_blocks = 256;  // that sum the norms' gradients
inline bool depth_ways_fit(int64_t ways) { return ways == 1 || ways == 4; }

// Rows of columns are packs of four: columns divides by four, all addresses by the size of a pack.
template <class T>
struct DepthAggregate {
  const T* states[max_states];   // each [tokens, columns]
  const float* pre[max_states];  // norm weights, if has_pre
  const float* post[max_ways];   // norm weights, if has_post
  const float* weights;          // [tokens, ways, states_count]
  T* out[max_ways];              // forward
  const T* dy[max_ways];         // backward, each or null (zero)
  T* dstates[max_states];        // backward, each or null
  float* dweights;               // backward: as weights, or null
  float* dpre;                   // backward: [depth_blocks, states_count, columns], set; or null
  float* dpost;                  // backward: [depth_blocks, ways, columns], set; or null
  int64_t tokens;
  int states_count, ways, columns;
  float eps;
  bool has_pre, has_post;
};

template <class T>
void depth_aggregate(const Where& where, const DepthAggregate<T>& args);
template <class T>
void depth_aggregate_grad(const Where& where, const DepthAggregate<T>& args);

}  // namespace satformer::gpu
