#include "kernels/dense_average/dense_average.h"

namespace satformer {

at::Tensor dense_average(const std::vector<at::Tensor>& states, const at::Tensor& weights) {
  return reference::dense_average(states, weights);
}

}  // namespace satformer
