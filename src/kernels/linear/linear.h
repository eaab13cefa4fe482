// Products of activations with weight matrices, y = x W^T + bias. Decoding multiplies every weight with a few rows of
// activations only and is as fast as the weights can be read.
#pragma once

#include <memory>
#include <span>

#include "kernels/autograd.h"
#include "kernels/tensor.h"

namespace satformer {

struct PackedWeight;

struct LinearWeight {
  at::Tensor dense;                                 // [N, K] in the type of x
  std::shared_ptr<const PackedWeight> packed = {};  // used instead of `dense` if set (kernels/linear/packed.h)
  at::Tensor bias = {};                             // [N] in the type of x; undefined: none
};

// Passes of so many rows go through kernels of their own on a CPU, in which the result of a row does not depend on
// the rows beside it, not even in its last bit: it is the same for one row alone.
inline constexpr std::int64_t few_rows_limit = 16;
// Whether x [..., C] is such a pass: at most few_rows_limit rows, on the CPU's fused path, without autograd.
bool few_rows(const at::Tensor& x);

// x [..., K] in float32 or bfloat16. Returns [..., N] in the type of x. Error(config) for packed weights while
// autograd records: they have no gradient.
at::Tensor linear(const at::Tensor& x, const LinearWeight& weight);
// The same for several weights that read the same x.
TensorList linear_each(const at::Tensor& x, std::span<const LinearWeight> weights);
// The same; what reads x afterwards should read what is then in `x`. While autograd records, the gradients of all
// that read x are then added by the products that make them.
TensorList linear_each_through(at::Tensor& x, std::span<const LinearWeight> weights);

// f(x) with x [..., C] where the rows are many; otherwise f of each row [1, C] alone, since libtorch's element-wise
// functions give other last bits at the end of an array than in its middle.
template <class F>
at::Tensor row_by_row(const at::Tensor& x, const F& f);

namespace reference {
TensorList linear_each(const at::Tensor& x, std::span<const LinearWeight> weights);
}  // namespace reference
namespace cpu {
TensorList linear_few_rows(const at::Tensor& x, std::span<const LinearWeight> weights);
at::Tensor linear_many_rows(const at::Tensor& x, const LinearWeight& weight);  // packed ones
}  // namespace cpu

namespace detail {
at::Tensor stack_rows(const TensorList& rows, const at::Tensor& like);
}  // namespace detail

template <class F>
at::Tensor row_by_row(const at::Tensor& x, const F& f) {
  if (!few_rows(x) || x.numel() == x.size(-1)) return f(x);
  const at::Tensor flat = x.reshape({-1, x.size(-1)});
  TensorList rows;
  for (std::int64_t r = 0; r < flat.size(0); ++r) rows.push_back(f(flat.narrow(0, r, 1)));
  return detail::stack_rows(rows, x);
}

}  // namespace satformer
