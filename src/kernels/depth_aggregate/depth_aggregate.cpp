#include "kernels/depth_aggregate/depth_aggregate.h"

#include <algorithm>

#include "base/error.h"
#include "kernels/backend.h"

namespace satformer {

std::vector<at::Tensor> depth_aggregate_through(std::vector<at::Tensor>& states_BTD, const at::Tensor& weights_BTWN,
                                                const DepthAggregateNorms& norms) {
  const auto N = static_cast<std::int64_t>(states_BTD.size()), ways = weights_BTWN.size(2);
  const auto fits = [](const std::vector<at::Tensor>& list, std::int64_t count) {
    return list.empty() || static_cast<std::int64_t>(list.size()) == count;
  };
  if (N == 0 || weights_BTWN.size(3) != N || !fits(norms.pre, N) || !fits(norms.post, ways)) {
    fail(ExitCode::internal, "depth_aggregate: weights ", weights_BTWN.sizes(), " for ", N, " states, ",
         norms.pre.size(), " pre and ", norms.post.size(), " post norms");
  }
  const at::Tensor& last = states_BTD.back();
  const bool alike = std::all_of(states_BTD.begin(), states_BTD.end(), [&](const at::Tensor& t) {
    return t.scalar_type() == last.scalar_type() && t.sizes() == last.sizes();
  });
  const bool fits_all = alike && last.size(-1) > 0 && weights_BTWN.numel() == last.numel() / last.size(-1) * ways * N;
  TensorList streams =
      choose(last, {.cpu = fits_all, .gpu = fits_all && gpu::depth_aggregate_fits(N, ways, last.size(-1))},
             cpu::depth_aggregate, gpu::depth_aggregate, reference::depth_aggregate)(states_BTD, weights_BTWN, norms);
  if (streams.size() > static_cast<std::size_t>(ways)) {
    states_BTD.assign(streams.begin() + ways, streams.end());
    streams.resize(static_cast<std::size_t>(ways));
  }
  return streams;
}

std::vector<at::Tensor> depth_aggregate(const std::vector<at::Tensor>& states_BTD, const at::Tensor& weights_BTWN,
                                        const DepthAggregateNorms& norms) {
  std::vector<at::Tensor> states = states_BTD;
  return depth_aggregate_through(states, weights_BTWN, norms);
}

}  // namespace satformer
