#include "kernels/cpu_rows.h"

#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>

namespace satformer::cpu {

at::Tensor norm_weight(const at::Tensor& weight, std::int64_t columns) {
  return weight.defined() ? dense_fp32(weight) : at::ones({columns}, at::TensorOptions().dtype(at::kFloat));
}

at::Tensor block_sums(const RowBlocks& blocks, std::int64_t width, at::ScalarType dtype) {
  return at::zeros({blocks.count, width}, at::TensorOptions().dtype(dtype));
}

at::Tensor sum_of_blocks(const at::Tensor& partial) {
  const std::int64_t count = partial.size(0), width = partial.size(1);
  at::Tensor sum = at::zeros({width}, partial.options());
  const auto add = [&](const auto* from, auto* to) {
    for (std::int64_t b = 0; b < count; ++b) {
      for (std::int64_t i = 0; i < width; ++i) to[i] += from[b * width + i];
    }
  };
  if (partial.scalar_type() == at::kDouble) {
    add(in<double>(partial), out<double>(sum));
  } else {
    add(in<float>(partial), out<float>(sum));
  }
  return sum;
}

}  // namespace satformer::cpu
