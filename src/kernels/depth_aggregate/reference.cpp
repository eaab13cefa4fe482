#include "kernels/tensor.h"

#include "kernels/depth_aggregate/depth_aggregate.h"
#include "kernels/rms_norm/rms_norm.h"

namespace satformer::reference {

std::vector<at::Tensor> depth_aggregate(const std::vector<at::Tensor>& states_BTD, const at::Tensor& weights_BTWN,
                                        const DepthAggregateNorms& norms) {
  const std::int64_t ways = weights_BTWN.size(2);
  std::vector<at::Tensor> sources;
  for (std::size_t j = 0; j < states_BTD.size(); ++j) {
    sources.push_back(norms.pre.empty() ? states_BTD[j] : rms_norm(states_BTD[j], norms.pre[j], norms.eps));
  }
  std::vector<at::Tensor> streams;
  for (std::int64_t c = 0; c < ways; ++c) {
    at::Tensor sum;
    for (std::size_t j = 0; j < sources.size(); ++j) {
      const at::Tensor w = weights_BTWN.select(2, c).select(2, static_cast<std::int64_t>(j)).unsqueeze(-1);
      sum = sum.defined() ? sum + w * sources[j] : w * sources[j];
    }
    if (!norms.post.empty())
      sum = rms_norm(sum, norms.post[static_cast<std::size_t>(c)], norms.eps) + states_BTD.back();
    streams.push_back(sum.to(states_BTD[0].scalar_type()));
  }
  return streams;
}

}  // namespace satformer::reference
