// Parameters in the type that a forward pass computes in.
#pragma once

#include <unordered_map>

#include "kernels/tensor.h"

namespace satformer {

class ComputeWeights {
 public:
  explicit ComputeWeights(at::ScalarType dtype) : dtype_(dtype) {}
  at::ScalarType dtype() const { return dtype_; }

  // `weight` itself if it has the compute type or is undefined; else a cast: recorded by autograd where that is on,
  // otherwise kept until the parameter's version changes.
  at::Tensor operator()(const at::Tensor& weight);

 private:
  struct Copy {
    std::int64_t version;
    at::Tensor value;
  };
  at::ScalarType dtype_;
  std::unordered_map<const void*, Copy> copies_;
};

}  // namespace satformer
