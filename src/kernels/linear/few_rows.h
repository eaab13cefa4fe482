// The parts of a product with few rows, for those that put several into one sequence of stages.
#pragma once

#include <algorithm>
#include <variant>

#include "kernels/cpu_rows.h"
#include "kernels/linear/linear.h"
#include "kernels/linear/packed.h"

namespace satformer::cpu {

std::int64_t outputs_of(const LinearWeight& weight);
std::int64_t blocks_of(const LinearWeight& weight);  // of rows::linear_block outputs
bool any_packed(std::span<const LinearWeight> weights);
bool any_dense(std::span<const LinearWeight> weights);

// Activations x [M, K] as the kernels read them: fp32 for dense weights, 16 bits for packed ones. A tensor that no
// weight reads is undefined.
struct FewRowsInput {
  FewRowsInput(std::int64_t rows, std::int64_t columns, bool for_dense, bool for_packed);
  FewRowsInput(std::int64_t rows, std::int64_t columns, std::span<const LinearWeight> weights);

  std::int64_t M, K;
  at::Tensor fp32;             // [M, K]
  at::Tensor q, scales, sums;  // rows::QuantiseRows
};

// Rows [begin, end) of x into the input.
template <class T>
void fill_rows(const rows::RowTable<T>& table, const T* x_MK, const FewRowsInput& input, std::int64_t begin,
               std::int64_t end) {
  if (input.fp32.defined()) {
    float* to = out<float>(input.fp32);
    for (std::int64_t i = begin * input.K; i < end * input.K; ++i) to[i] = rows::load(x_MK[i]);
  }
  if (input.q.defined()) {
    const rows::QuantiseRows<T> args{.x = x_MK,
                                     .q = out<std::int16_t>(input.q),
                                     .scales = out<float>(input.scales),
                                     .sums = out<std::int32_t>(input.sums),
                                     .inputs = input.K,
                                     .groups = input.q.size(0),
                                     .rows = input.M};
    table.quantise_rows(args, begin, end);
  }
}

// One product whose blocks of outputs may be computed in any order: y [M, N]. Holds pointers only.
template <class T>
class FewRowsProduct {
 public:
  FewRowsProduct(const rows::RowTable<T>& table, const LinearWeight& w, const FewRowsInput& input, T* y)
      : table_(&table), blocks_(blocks_of(w)) {
    if (!w.packed) {
      args_ = rows::DenseLinear<T>{.weight = in<T>(w.dense),
                                   .x = in<float>(input.fp32),
                                   .bias = in<T>(w.bias),
                                   .y = y,
                                   .outputs = outputs_of(w),
                                   .inputs = input.K,
                                   .rows = input.M};
      return;
    }
    const bool eight = w.packed->format == WeightFormat::int8;
    args_ = rows::PackedLinear<T>{.data = in<std::uint8_t>(w.packed->data),
                                  .row_scales = eight ? in<float>(w.packed->scales) : nullptr,
                                  .group_scales = eight ? nullptr : in<rows::bf16>(w.packed->scales),
                                  .x = in<std::int16_t>(input.q),
                                  .x_scales = in<float>(input.scales),
                                  .x_sums = in<std::int32_t>(input.sums),
                                  .bias = in<T>(w.bias),
                                  .y = y,
                                  .outputs = w.packed->outputs,
                                  .groups = w.packed->groups(),
                                  .rows = input.M};
  }
  std::int64_t blocks() const { return blocks_; }
  // The weights of blocks from `first` on.
  std::span<const char> reads(std::int64_t first) const {
    const auto bytes = [first](const auto* weights, std::int64_t block, std::int64_t all) {
      return std::span(reinterpret_cast<const char*>(weights), static_cast<std::size_t>(all))
          .subspan(static_cast<std::size_t>(first * block));
    };
    if (const auto* a = std::get_if<rows::DenseLinear<T>>(&args_)) {
      const auto row = a->inputs * static_cast<std::int64_t>(sizeof(T));
      return bytes(a->weight, rows::linear_block * row, a->outputs * row);
    }
    const auto& a = std::get<rows::PackedLinear<T>>(args_);
    const std::int64_t block = a.groups * rows::linear_group * rows::linear_block / (a.row_scales ? 1 : 2);
    return bytes(a.data, block, blocks_ * block);
  }
  void run(std::int64_t begin, std::int64_t end) const {
    if (const auto* dense = std::get_if<rows::DenseLinear<T>>(&args_)) {
      table_->dense_linear(*dense, begin, end);
    } else {
      table_->packed_linear(std::get<rows::PackedLinear<T>>(args_), begin, end);
    }
  }

 private:
  const rows::RowTable<T>* table_;
  std::int64_t blocks_;
  std::variant<rows::DenseLinear<T>, rows::PackedLinear<T>> args_;
};

// The weights of blocks from `first` on up to the end of their product.
template <class T>
std::span<const char> weights_from(const std::vector<FewRowsProduct<T>>& products, std::int64_t first) {
  for (const FewRowsProduct<T>& product : products) {
    if (first < product.blocks()) return product.reads(first);
    first -= product.blocks();
  }
  return {};
}

// Blocks [begin, end) of several products, counted one after the other.
template <class T>
void run_products(const std::vector<FewRowsProduct<T>>& products, std::int64_t begin, std::int64_t end) {
  std::int64_t first = 0;
  for (const FewRowsProduct<T>& product : products) {
    const std::int64_t from = std::max(begin - first, std::int64_t{0}), to = std::min(end - first, product.blocks());
    if (from < to) product.run(from, to);
    first += product.blocks();
  }
}

}  // namespace satformer::cpu
