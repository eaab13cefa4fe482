// What the fused CPU operations share: element dispatch, raw pointers, sums over row blocks.
#pragma once

#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>

#include "kernels/autograd.h"
#include "kernels/backend.h"
#include "kernels/isa.h"
#include "kernels/op_tensors.h"
#include "kernels/parallel.h"
#include "kernels/tensor.h"

namespace satformer::cpu {

// f(row table, T{}) for T = float or rows::bf16, the element type of `dtype`.
template <class F>
void with_element(const rows::IsaTable& isa, at::ScalarType dtype, F&& f) {
  if (dtype == at::kBFloat16) {
    f(isa.of_bf16, rows::bf16{});
  } else {
    f(isa.of_fp32, float{});
  }
}

// fp32 norm weight of `columns` ones if undefined.
at::Tensor norm_weight(const at::Tensor& weight, std::int64_t columns);
// Zeroed partial sums, one row of `width` per block; and their sum in block order.
at::Tensor block_sums(const RowBlocks& blocks, std::int64_t width, at::ScalarType dtype = at::kFloat);
at::Tensor sum_of_blocks(const at::Tensor& partial);

// An operation that remembers the instruction set chosen in forward: backward may run on another thread.
class CpuOp : public DifferentiableOp {
 protected:
  const rows::IsaTable& isa() const { return isa_; }

 private:
  const rows::IsaTable& isa_ = isa_table();
};

}  // namespace satformer::cpu
