// What operations do with their tensors before a kernel gets pointers to them.
#pragma once

#include "kernels/tensor.h"

namespace satformer {

// Null for an undefined tensor.
template <class T>
const T* in(const at::Tensor& t) {
  return t.defined() ? static_cast<const T*>(t.const_data_ptr()) : nullptr;
}
template <class T>
T* out(const at::Tensor& t) {
  return t.defined() ? static_cast<T*>(t.mutable_data_ptr()) : nullptr;
}

// Contiguous and of that dtype; undefined stays undefined.
at::Tensor dense(const at::Tensor& t, at::ScalarType dtype);
at::Tensor dense_fp32(const at::Tensor& t);

}  // namespace satformer
