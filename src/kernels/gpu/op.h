// What the operations on a GPU share: where they run, element dispatch, raw pointers.
#pragma once

#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/sum.h>
#include <c10/core/DeviceGuard.h>

#include "kernels/autograd.h"
#include "kernels/gpu/where.h"
#include "kernels/op_tensors.h"
#include "kernels/row_math.h"
#include "kernels/tensor.h"

namespace satformer::gpu {

// Makes the tensor's device current while it lives, and names its current stream. A tensor on the CPU (tests) is
// worked on by the host.
class Call {
 public:
  explicit Call(const at::Tensor& x);
  const Where& where() const { return where_; }

 private:
  c10::OptionalDeviceGuard guard_;
  Where where_;
};

// f(T{}) for T = float or rows::bf16, the element type of `dtype`.
template <class F>
void with_element(at::ScalarType dtype, F&& f) {
  if (dtype == at::kBFloat16) {
    f(rows::bf16{});
  } else {
    f(float{});
  }
}

// A contiguous tensor whose address allows packs of four: itself, or a copy. Undefined stays undefined.
at::Tensor aligned(const at::Tensor& t);
// [count, width] on x's device, not set.
at::Tensor partial_sums(const at::Tensor& x, std::int64_t count, std::int64_t width,
                        at::ScalarType dtype = at::kFloat);
// The sum over the first axis, in `like`'s shape and dtype.
at::Tensor total_like(const at::Tensor& partial, const at::Tensor& like);

// True if rows of `columns` elements of all these tensors (undefined ones aside) can be moved `width` elements at a
// time.
bool fits_packs(std::int64_t columns, const TensorList& tensors, std::int64_t width = 4);

}  // namespace satformer::gpu
