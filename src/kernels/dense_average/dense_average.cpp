#include "kernels/dense_average/dense_average.h"

#include <algorithm>

#include "base/error.h"
#include "kernels/backend.h"
#include "kernels/gpu/where.h"

namespace satformer {

at::Tensor dense_average(const std::vector<at::Tensor>& states, const at::Tensor& weights) {
  if (states.empty() || weights.numel() != static_cast<std::int64_t>(states.size())) {
    fail(ExitCode::internal, "dense_average: ", weights.numel(), " weights for ", states.size(), " states");
  }
  const at::Tensor& first = states.front();
  const bool alike = std::all_of(states.begin(), states.end(), [&](const at::Tensor& t) {
    return t.scalar_type() == first.scalar_type() && t.sizes() == first.sizes();
  });
  return choose(first, {.cpu = alike, .gpu = alike && states.size() <= gpu::max_states}, cpu::dense_average,
                gpu::dense_average, reference::dense_average)(states, weights);
}

}  // namespace satformer
