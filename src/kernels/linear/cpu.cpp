#include <ATen/ops/empty.h>
#include <ATen/ops/mm.h>

#include <algorithm>

#include "kernels/linear/few_rows.h"
#include "kernels/stages.h"

namespace satformer::cpu {
namespace {

constexpr std::int64_t unpacked_bytes = std::int64_t{1} << 20;  // of a tile that waits in the cache for its product

// Activations of 16 bits as numbers, [M, K]: many rows give what few give, up to rounding of sums.
at::Tensor rounded(const at::Tensor& x_MK, const LinearWeight& weight) {
  const at::Tensor x = x_MK.contiguous();
  const std::int64_t M = x.size(0), K = x.size(1);
  const FewRowsInput input(M, K, {&weight, 1});
  with_element(isa_table(), x.scalar_type(), [&](const auto& table, auto element) {
    const auto* from = in<decltype(element)>(x);
    parallel_ranges(M, K, [&](std::int64_t begin, std::int64_t end) { fill_rows(table, from, input, begin, end); });
  });
  const at::Tensor numbers_GMI = input.q.to(at::kFloat).mul_(input.scales.unsqueeze(-1));
  return numbers_GMI.transpose(0, 1).flatten(1).narrow(1, 0, K).to(x.scalar_type());
}

}  // namespace

std::int64_t outputs_of(const LinearWeight& w) { return w.packed ? w.packed->outputs : w.dense.size(0); }
std::int64_t blocks_of(const LinearWeight& w) {
  return (outputs_of(w) + rows::linear_block - 1) / rows::linear_block;
}
bool any_packed(std::span<const LinearWeight> weights) {
  return std::any_of(weights.begin(), weights.end(), [](const LinearWeight& w) { return w.packed != nullptr; });
}

bool any_dense(std::span<const LinearWeight> weights) {
  return std::any_of(weights.begin(), weights.end(), [](const LinearWeight& w) { return w.packed == nullptr; });
}

FewRowsInput::FewRowsInput(std::int64_t rows, std::int64_t columns, bool for_dense, bool for_packed)
    : M(rows), K(columns) {
  if (for_dense) fp32 = at::empty({M, K}, at::kFloat);
  if (!for_packed) return;
  const std::int64_t groups = (K + PackedWeight::group - 1) / PackedWeight::group;
  q = at::empty({groups, M, PackedWeight::group}, at::kShort);
  scales = at::empty({groups, M}, at::kFloat);
  sums = at::empty({groups, M}, at::kInt);
}

FewRowsInput::FewRowsInput(std::int64_t rows, std::int64_t columns, std::span<const LinearWeight> weights)
    : FewRowsInput(rows, columns, any_dense(weights), any_packed(weights)) {}

// One loop over the blocks of all weights.
TensorList linear_few_rows(const at::Tensor& x, std::span<const LinearWeight> weights) {
  const at::Tensor x_MK = x.reshape({-1, x.size(-1)}).contiguous();
  const std::int64_t M = x_MK.size(0), K = x_MK.size(1);
  std::vector<LinearWeight> dense_weights(weights.begin(), weights.end());
  TensorList results, shaped;
  std::vector<std::int64_t> shape = x.sizes().vec();
  std::int64_t blocks = 0;
  for (LinearWeight& w : dense_weights) {
    if (!w.packed) w.dense = w.dense.contiguous();
    if (w.bias.defined()) w.bias = w.bias.contiguous();
    results.push_back(at::empty({M, outputs_of(w)}, x_MK.options()));
    shape.back() = outputs_of(w);
    shaped.push_back(results.back().view(shape));
    blocks += blocks_of(w);
  }
  const FewRowsInput input(M, K, dense_weights);
  with_element(isa_table(), x_MK.scalar_type(), [&](const auto& table, auto element) {
    using T = decltype(element);
    std::vector<FewRowsProduct<T>> products;
    for (std::size_t i = 0; i < results.size(); ++i) {
      products.emplace_back(table, dense_weights[i], input, out<T>(results[i]));
    }
    Stages stages;
    stages.add(M, K, [&](std::int64_t begin, std::int64_t end) { fill_rows(table, in<T>(x_MK), input, begin, end); });
    stages.add(blocks, M * K * rows::linear_block,
               [&](std::int64_t begin, std::int64_t end) { run_products(products, begin, end); });
    stages.run();
  });
  return shaped;
}

at::Tensor linear_many_rows(const at::Tensor& x, const LinearWeight& weight) {
  const PackedWeight& w = *weight.packed;
  const at::Tensor x_MK = rounded(x.reshape({-1, x.size(-1)}), weight);
  const at::Tensor y = at::empty({x_MK.size(0), w.outputs}, x_MK.options());
  const auto element = static_cast<std::int64_t>(x.element_size());
  const std::int64_t tile = std::max<std::int64_t>(
      1, unpacked_bytes / (std::max<std::int64_t>(1, w.inputs) * element * PackedWeight::block));
  for (std::int64_t b = 0; b < w.blocks(); b += tile) {
    const std::int64_t end = std::min(w.blocks(), b + tile), begin_column = b * PackedWeight::block;
    const std::int64_t columns = std::min(w.outputs, end * PackedWeight::block) - begin_column;
    const at::Tensor unpacked = unpack_blocks(w, x.scalar_type(), b, end).narrow(1, 0, columns);
    y.narrow(1, begin_column, columns).copy_(at::mm(x_MK, unpacked));
  }
  if (weight.bias.defined()) y.add_(weight.bias);
  std::vector<std::int64_t> shape = x.sizes().vec();
  shape.back() = w.outputs;
  return y.view(shape);
}

}  // namespace satformer::cpu
