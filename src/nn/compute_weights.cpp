#include "nn/compute_weights.h"

#include <ATen/core/grad_mode.h>

namespace satformer {

at::Tensor ComputeWeights::operator()(const at::Tensor& weight) {
  if (!weight.defined() || weight.scalar_type() == dtype_) return weight;
  if (at::GradMode::is_enabled()) return weight.to(dtype_);
  Copy& copy = copies_[weight.unsafeGetTensorImpl()];
  const std::int64_t version = weight._version();
  if (!copy.value.defined() || copy.version != version) copy = {version, weight.to(dtype_)};
  return copy.value;
}

}  // namespace satformer
