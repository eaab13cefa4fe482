// MUDDFormer's depth aggregation: way c of a token reads all states X_0..X_{N-1} with its own weights.
//   stream_c = post_c( sum_j w[c,j] * pre_j(X_j) ) + X_{N-1}     with pre and post norms
//   stream_c = sum_j w[c,j] * X_j                                 without
#pragma once

#include "kernels/tensor.h"

#include <vector>

namespace satformer {

struct DepthAggregateNorms {
  std::vector<at::Tensor> pre;   // N weights [C_model], or empty
  std::vector<at::Tensor> post;  // one weight per way, or empty
  double eps = 1e-6;
};

// states: N tensors [B, T, D]; weights [B, T, ways, N]. Returns `ways` tensors [B, T, D]. The fused path keeps no
// normalised copies: norms are recomputed in backward.
std::vector<at::Tensor> depth_aggregate(const std::vector<at::Tensor>& states_BTD, const at::Tensor& weights_BTWN,
                                        const DepthAggregateNorms& norms);

// The same; what reads the states afterwards should read those that are then in `states_BTD`: its gradients are added
// where this call's are made.
std::vector<at::Tensor> depth_aggregate_through(std::vector<at::Tensor>& states_BTD, const at::Tensor& weights_BTWN,
                                                const DepthAggregateNorms& norms);

namespace reference {
std::vector<at::Tensor> depth_aggregate(const std::vector<at::Tensor>& states_BTD, const at::Tensor& weights_BTWN,
                                        const DepthAggregateNorms& norms);
}  // namespace reference
namespace cpu {  // streams, then states
std::vector<at::Tensor> depth_aggregate(const std::vector<at::Tensor>& states_BTD, const at::Tensor& weights_BTWN,
                                        const DepthAggregateNorms& norms);
}  // namespace cpu
namespace gpu {
bool depth_aggregate_fits(std::int64_t states, std::int64_t ways, std::int64_t columns);
std::vector<at::Tensor> depth_aggregate(const std::vector<at::Tensor>& states_BTD, const at::Tensor& weights_BTWN,
                                        const DepthAggregateNorms& norms);
}  // namespace gpu

}  // namespace satformer
