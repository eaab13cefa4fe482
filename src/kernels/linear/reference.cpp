#include <ATen/ops/linear.h>

#include "kernels/linear/linear.h"
#include "kernels/linear/packed.h"

namespace satformer::reference {

TensorList linear_each(const at::Tensor& x, std::span<const LinearWeight> weights) {
  TensorList results;
  for (const LinearWeight& w : weights) {
    const at::Tensor dense = w.packed ? unpack_weight(*w.packed, at::kFloat).to(x.device()) : w.dense.to(at::kFloat);
    const at::Tensor bias = w.bias.defined() ? w.bias.to(at::kFloat) : at::Tensor();
    results.push_back(at::linear(x.to(at::kFloat), dense, bias).to(x.scalar_type()));
  }
  return results;
}

}  // namespace satformer::reference
