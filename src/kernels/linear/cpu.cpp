#include <ATen/ops/empty.h>
#include <ATen/ops/mm.h>

#include <algorithm>

#include "kernels/cpu_rows.h"
#include "kernels/linear/linear.h"
#include "kernels/linear/packed.h"

namespace satformer::cpu {
namespace {

constexpr std::int64_t unpacked_bytes = std::int64_t{1} << 20;  // of a tile that waits in the cache for its product

// The activations as the kernels read them.
struct Activations {
  at::Tensor fp32;             // for dense weights
  at::Tensor q, scales, sums;  // for packed ones
};

Activations prepare(const rows::IsaTable& isa, const at::Tensor& x_MK, std::span<const LinearWeight> weights) {
  Activations a;
  for (const LinearWeight& w : weights) {
    if (!w.packed) {
      if (!a.fp32.defined()) a.fp32 = dense_fp32(x_MK);
      continue;
    }
    if (a.q.defined()) continue;
    const std::int64_t M = x_MK.size(0), K = x_MK.size(1), groups = w.packed->groups();
    a.q = at::empty({groups, M, PackedWeight::group}, at::kShort);
    a.scales = at::empty({groups, M}, at::kFloat);
    a.sums = at::empty({groups, M}, at::kInt);
    with_element(isa, x_MK.scalar_type(), [&](const auto& table, auto element) {
      using T = decltype(element);
      const rows::QuantiseRows<T> args{.x = in<T>(x_MK),
                                       .q = out<std::int16_t>(a.q),
                                       .scales = out<float>(a.scales),
                                       .sums = out<std::int32_t>(a.sums),
                                       .inputs = K,
                                       .groups = groups,
                                       .rows = M};
      parallel_ranges(M, K, [&](std::int64_t begin, std::int64_t end) { table.quantise_rows(args, begin, end); });
    });
  }
  return a;
}

std::int64_t outputs_of(const LinearWeight& w) { return w.packed ? w.packed->outputs : w.dense.size(0); }
std::int64_t blocks_of(const LinearWeight& w) {
  return (outputs_of(w) + rows::linear_block - 1) / rows::linear_block;
}

template <class T>
void run_blocks(const rows::RowTable<T>& table, const LinearWeight& w, const Activations& a, const at::Tensor& y,
                std::int64_t begin, std::int64_t end) {
  const std::int64_t M = y.size(0), N = y.size(1);
  if (!w.packed) {
    const rows::DenseLinear<T> args{.weight = in<T>(w.dense),
                                    .x = in<float>(a.fp32),
                                    .bias = in<T>(w.bias),
                                    .y = out<T>(y),
                                    .outputs = N,
                                    .inputs = w.dense.size(1),
                                    .rows = M};
    table.dense_linear(args, begin, end);
    return;
  }
  const bool eight = w.packed->format == WeightFormat::int8;
  const rows::PackedLinear<T> args{.data = in<std::uint8_t>(w.packed->data),
                                   .row_scales = eight ? in<float>(w.packed->scales) : nullptr,
                                   .group_scales = eight ? nullptr : in<rows::bf16>(w.packed->scales),
                                   .x = in<std::int16_t>(a.q),
                                   .x_scales = in<float>(a.scales),
                                   .x_sums = in<std::int32_t>(a.sums),
                                   .bias = in<T>(w.bias),
                                   .y = out<T>(y),
                                   .outputs = N,
                                   .groups = w.packed->groups(),
                                   .rows = M};
  table.packed_linear(args, begin, end);
}

// Activations of 16 bits as numbers, [M, K]: many rows give what few give, up to rounding of sums.
at::Tensor rounded(const at::Tensor& x_MK, const LinearWeight& weight) {
  const Activations a = prepare(isa_table(), x_MK.contiguous(), {&weight, 1});
  const at::Tensor numbers_GMI = a.q.to(at::kFloat).mul_(a.scales.unsqueeze(-1));
  return numbers_GMI.transpose(0, 1).flatten(1).narrow(1, 0, x_MK.size(1)).to(x_MK.scalar_type());
}

}  // namespace

// One parallel loop over the blocks of all weights.
TensorList linear_few_rows(const at::Tensor& x, std::span<const LinearWeight> weights) {
  const at::Tensor x_MK = x.reshape({-1, x.size(-1)}).contiguous();
  const std::int64_t M = x_MK.size(0), K = x_MK.size(1);
  std::vector<LinearWeight> dense_weights(weights.begin(), weights.end());
  TensorList results, shaped;
  std::vector<std::int64_t> first = {0}, shape = x.sizes().vec();
  for (LinearWeight& w : dense_weights) {
    if (!w.packed) w.dense = w.dense.contiguous();
    if (w.bias.defined()) w.bias = w.bias.contiguous();
    results.push_back(at::empty({M, outputs_of(w)}, x_MK.options()));
    shape.back() = outputs_of(w);
    shaped.push_back(results.back().view(shape));
    first.push_back(first.back() + blocks_of(w));
  }
  const rows::IsaTable& isa = isa_table();
  const Activations activations = prepare(isa, x_MK, dense_weights);
  with_element(isa, x_MK.scalar_type(), [&](const auto& table, auto) {
    parallel_ranges(first.back(), M * K * rows::linear_block, [&](std::int64_t begin, std::int64_t end) {
      for (std::size_t i = 0; i < dense_weights.size(); ++i) {
        const std::int64_t from = std::max(begin, first[i]), to = std::min(end, first[i + 1]);
        if (from < to) {
          run_blocks(table, dense_weights[i], activations, results[i], from - first[i], to - first[i]);
        }
      }
    });
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
