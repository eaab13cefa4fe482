#include "nn/compute_weights.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/full.h>

#include <limits>

#include "base/error.h"

namespace satformer {

void ComputeWeights::set_dtype(at::ScalarType dtype) {
  dtype_ = dtype;
  copies_.clear();
}

at::Tensor ComputeWeights::operator()(const at::Tensor& weight) {
  if (!weight.defined()) return weight;
  if (const auto packed = packed_.find(weight.unsafeGetTensorImpl()); packed != packed_.end()) {
    if (at::GradMode::is_enabled()) fail(ExitCode::config, "a model whose weights were quantised has no gradients");
    return unpack_weight(*packed->second, dtype_);
  }
  if (weight.scalar_type() == dtype_) return weight;
  if (at::GradMode::is_enabled()) return weight.to(dtype_);
  Copy& copy = copies_[weight.unsafeGetTensorImpl()];
  const std::int64_t version = weight._version();
  if (!copy.value.defined() || copy.version != version) copy = {version, weight.to(dtype_)};
  return copy.value;
}

void ComputeWeights::pack(const at::Tensor& parameter, WeightFormat format, bool kept) {
  const at::NoGradGuard no_grad;
  packed_[parameter.unsafeGetTensorImpl()] = std::make_shared<const PackedWeight>(pack_weight(parameter, format));
  copies_.erase(parameter.unsafeGetTensorImpl());
  if (kept) return;
  const at::Tensor nothing = at::full({1, 1}, std::numeric_limits<double>::quiet_NaN(), parameter.options());
  at::Tensor handle = parameter;
  handle.set_data(nothing.expand(parameter.sizes()));
}

LinearWeight ComputeWeights::linear_weight(const at::Tensor& weight, const at::Tensor& bias) {
  if (const auto packed = packed_.find(weight.unsafeGetTensorImpl()); packed != packed_.end()) {
    return {{}, packed->second, (*this)(bias)};
  }
  return {(*this)(weight), {}, (*this)(bias)};
}

}  // namespace satformer
