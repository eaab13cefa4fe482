#include "kernels/depth_aggregate/depth_aggregate.h"

namespace satformer {

std::vector<at::Tensor> depth_aggregate(const std::vector<at::Tensor>& states_BTD, const at::Tensor& weights_BTWN,
                                        const DepthAggregateNorms& norms) {
  return reference::depth_aggregate(states_BTD, weights_BTWN, norms);
}

}  // namespace satformer
