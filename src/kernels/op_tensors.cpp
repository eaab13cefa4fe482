#include "kernels/op_tensors.h"

namespace satformer {

at::Tensor dense(const at::Tensor& t, at::ScalarType dtype) {
  return t.defined() ? t.to(dtype).contiguous() : at::Tensor();
}

at::Tensor dense_fp32(const at::Tensor& t) { return dense(t, at::kFloat); }

}  // namespace satformer
