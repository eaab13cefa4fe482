// Parameters in the type that a forward pass computes in, and the products with them.
#pragma once

#include <unordered_map>

#include "kernels/linear/linear.h"
#include "kernels/linear/packed.h"
#include "kernels/tensor.h"

namespace satformer {

class ComputeWeights {
 public:
  explicit ComputeWeights(at::ScalarType dtype) : dtype_(dtype) {}
  at::ScalarType dtype() const { return dtype_; }
  void set_dtype(at::ScalarType dtype);

  // `weight` itself if it has the compute type or is undefined; else a cast: recorded by autograd where that is on,
  // otherwise kept until the parameter's version changes. Of a packed one what its numbers stand for, made anew.
  at::Tensor operator()(const at::Tensor& weight);

  // From now on products with the matrix `parameter` use `format`. Its own memory is given back unless it is `kept`:
  // then it reads as NaN.
  void pack(const at::Tensor& parameter, WeightFormat format, bool kept);
  bool is_packed(const at::Tensor& parameter) const { return packed_.count(parameter.unsafeGetTensorImpl()) > 0; }

  LinearWeight linear_weight(const at::Tensor& weight, const at::Tensor& bias = {});
  // x W^T + bias.
  at::Tensor linear(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias = {}) {
    return satformer::linear(x, linear_weight(weight, bias));
  }

 private:
  struct Copy {
    std::int64_t version;
    at::Tensor value;
  };
  at::ScalarType dtype_;
  std::unordered_map<const void*, Copy> copies_;
  std::unordered_map<const void*, std::shared_ptr<const PackedWeight>> packed_;
};

}  // namespace satformer
