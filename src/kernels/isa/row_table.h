// One instruction set's row kernels: function pointers, one per operation and element type. Every kernel works on the
// rows (or elements) [begin, end).
#pragma once

#include "kernels/adamw/rows.h"
#include "kernels/attention/query_rows.h"
#include "kernels/attention/rows.h"
#include "kernels/dense_average/rows.h"
#include "kernels/depth_aggregate/rows.h"
#include "kernels/hyper_connection/rows.h"
#include "kernels/linear/rows.h"
#include "kernels/linear_cross_entropy/rows.h"
#include "kernels/qk_norm_rope/rows.h"
#include "kernels/rms_norm/rows.h"
#include "kernels/row_math.h"
#include "kernels/swiglu/rows.h"
#include "kernels/value_gate/rows.h"

namespace satformer::rows {

template <class Args>
using RowKernel = void (*)(const Args&, int64_t begin, int64_t end);

template <class T>
struct RowTable {
  RowKernel<RmsNorm<T>> rms_norm;
  RowKernel<RmsNormGrad<T>> rms_norm_grad;
  RowKernel<Swiglu<T>> swiglu;
  RowKernel<SwigluGrad<T>> swiglu_grad;
  RowKernel<CrossEntropy<T>> cross_entropy;
  RowKernel<QkNormRope<T>> qk_norm_rope, qk_norm_rope_grad;
  RowKernel<ValueGate<T>> value_gate, value_gate_grad;
  RowKernel<StaticMix<T>> static_mix, static_mix_grad;
  RowKernel<DenseAverage<T>> dense_average, dense_average_grad;
  RowKernel<DepthAggregate<T>> depth_aggregate, depth_aggregate_grad;
  RowKernel<FlashSoftmax<T>> flash_softmax;
  RowKernel<FlashFinish<T>> flash_finish;
  RowKernel<FlashGrad<T>> flash_grad;
  RowKernel<FlashDelta<T>> flash_delta;
  RowKernel<FlashPack<T>> flash_pack_rows, flash_pack_columns, flash_transpose;
  RowKernel<FlashStore<T>> flash_store, flash_store_transposed;
  RowKernel<FewQueries<T>> few_queries;
  RowKernel<DenseLinear<T>> dense_linear;
  RowKernel<PackedLinear<T>> packed_linear;
  RowKernel<QuantiseRows<T>> quantise_rows;
  RowKernel<UnpackWeight<T>> unpack_weight;
  RowKernel<AdamW<T>> adamw;
  RowKernel<SumOfSquares<T>> sum_of_squares;
  // Indexed by the number of streams less one.
  RowKernel<HyperRead<T>> hyper_read[max_hyper_streams];
  RowKernel<HyperReadGrad<T>> hyper_read_grad[max_hyper_streams];
  RowKernel<HyperWrite<T>> hyper_write[max_hyper_streams];
  RowKernel<HyperWrite<T>> hyper_write_grad[max_hyper_streams];
};

struct IsaTable {
  RowTable<float> of_fp32;
  RowTable<bf16> of_bf16;
  // For tests: element-wise exp, tanh and sigmoid.
  void (*exp)(const float* x, float* y, int64_t n);
  void (*tanh)(const float* x, float* y, int64_t n);
  void (*sigmoid)(const float* x, float* y, int64_t n);
};

const IsaTable& generic_table();
#ifdef SATFORMER_ISA_X86
const IsaTable& avx2_table();
const IsaTable& avx512_table();
#endif

}  // namespace satformer::rows
