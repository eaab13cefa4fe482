#include "kernels/tensor.h"

#include "kernels/dense_average/dense_average.h"

namespace satformer::reference {

at::Tensor dense_average(const std::vector<at::Tensor>& states, const at::Tensor& weights) {
  const at::Tensor w = weights.flatten();
  at::Tensor sum = w.select(0, 0) * states[0].to(at::kFloat);
  for (std::size_t j = 1; j < states.size(); ++j)
    sum = sum + w.select(0, static_cast<std::int64_t>(j)) * states[j].to(at::kFloat);
  return sum.to(states[0].scalar_type());
}

}  // namespace satformer::reference
