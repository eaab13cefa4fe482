// Instantiates the row kernels for the instruction set of the including file.
#pragma once

#include "kernels/attention/query_products.h"
#include "kernels/depth_aggregate/mixing.h"
#include "kernels/hyper_connection/mixing.h"
#include "kernels/isa/row_table.h"
#include "kernels/linear/products.h"

namespace satformer::rows {

template <class T>
static constexpr RowTable<T> make_row_table() {
  return {
      .rms_norm = &rms_norm<T>,
      .rms_norm_grad = &rms_norm_grad<T>,
      .swiglu = &swiglu<T>,
      .swiglu_grad = &swiglu_grad<T>,
      .cross_entropy = &cross_entropy<T>,
      .qk_norm_rope = &qk_norm_rope<T>,
      .qk_norm_rope_grad = &qk_norm_rope_grad<T>,
      .value_gate = &value_gate<T>,
      .value_gate_grad = &value_gate_grad<T>,
      .static_mix = &static_mix<T>,
      .static_mix_grad = &static_mix_grad<T>,
      .dense_average = &dense_average<T>,
      .dense_average_grad = &dense_average_grad<T>,
      .depth_aggregate = &depth_aggregate<T>,
      .depth_aggregate_grad = &depth_aggregate_grad<T>,
      .flash_softmax = &flash_softmax<T>,
      .flash_finish = &flash_finish<T>,
      .flash_grad = &flash_grad<T>,
      .flash_delta = &flash_delta<T>,
      .flash_pack_rows = &flash_pack_rows<T>,
      .flash_pack_columns = &flash_pack_columns<T>,
      .flash_transpose = &flash_transpose<T>,
      .flash_store = &flash_store<T>,
      .flash_store_transposed = &flash_store_transposed<T>,
      .few_queries = &few_queries<T>,
      .dense_linear = &dense_linear<T>,
      .packed_linear = &packed_linear<T>,
      .quantise_rows = &quantise_rows<T>,
      .unpack_weight = &unpack_weight<T>,
      .adamw = &adamw<T>,
      .sum_of_squares = &sum_of_squares<T>,
      .hyper_read = {&hyper_read<1, T>, &hyper_read<2, T>, &hyper_read<3, T>, &hyper_read<4, T>, &hyper_read<5, T>,
                     &hyper_read<6, T>, &hyper_read<7, T>, &hyper_read<8, T>},
      .hyper_read_grad = {&hyper_read_grad<1, T>, &hyper_read_grad<2, T>, &hyper_read_grad<3, T>,
                          &hyper_read_grad<4, T>, &hyper_read_grad<5, T>, &hyper_read_grad<6, T>,
                          &hyper_read_grad<7, T>, &hyper_read_grad<8, T>},
      .hyper_write = {&hyper_write<1, T>, &hyper_write<2, T>, &hyper_write<3, T>, &hyper_write<4, T>,
                      &hyper_write<5, T>, &hyper_write<6, T>, &hyper_write<7, T>, &hyper_write<8, T>},
      .hyper_write_grad = {&hyper_write_grad<1, T>, &hyper_write_grad<2, T>, &hyper_write_grad<3, T>,
                           &hyper_write_grad<4, T>, &hyper_write_grad<5, T>, &hyper_write_grad<6, T>,
                           &hyper_write_grad<7, T>, &hyper_write_grad<8, T>},
  };
}

static void exp_all(const float* x, float* y, int64_t n) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) y[i] = exp_fp32(x[i]);
}
static void tanh_all(const float* x, float* y, int64_t n) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) y[i] = tanh_fp32(x[i]);
}
static void sigmoid_all(const float* x, float* y, int64_t n) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) y[i] = sigmoid_fp32(x[i]);
}

static constexpr IsaTable this_table = {.of_fp32 = make_row_table<float>(),
                                        .of_bf16 = make_row_table<bf16>(),
                                        .exp = &exp_all,
                                        .tanh = &tanh_all,
                                        .sigmoid = &sigmoid_all};

}  // namespace satformer::rows
