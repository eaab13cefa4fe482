// Arguments of the products with few rows of activations; products.h has the kernels.
#pragma once

#include "kernels/row_math.h"

namespace satformer::rows {

inline constexpr int64_t linear_block = 16;  // output rows that stand side by side
inline constexpr int64_t linear_group = 32;  // inputs that share an activation's scale (and an int4 weight's)

// Weights as a matrix. Indices are blocks of 16 outputs.
template <class T>
struct DenseLinear {
  const T* weight;  // [outputs, inputs]
  const float* x;   // [rows, inputs]
  const T* bias;    // [outputs] or null
  T* y;             // [rows, outputs]
  int64_t outputs, inputs, rows;
};

// Packed weights (packed.h) and activations in 16 bits: x = scale * q, one scale for each group of 32 inputs. Sums of
// products within a group are exact integers. Indices are blocks.
template <class T>
struct PackedLinear {
  const uint8_t* data;
  const float* row_scales;   // int8: [blocks, 16]; null for int4
  const bf16* group_scales;  // int4: [blocks, groups, 16]
  const int16_t* x;          // [groups, rows, 32]
  const float* x_scales;     // [groups, rows]
  const int32_t* x_sums;     // [groups, rows], of q
  const T* bias;             // [outputs] or null
  T* y;                      // [rows, outputs]
  int64_t outputs, groups, rows;
};

// Indices are rows.
template <class T>
struct QuantiseRows {
  const T* x;  // [rows, inputs]
  int16_t* q;  // [groups, rows, 32], zeros behind the last input
  float* scales;
  int32_t* sums;  // [groups, rows]
  int64_t inputs, groups, rows;
};

// Packed weights as numbers, transposed: block b at columns 16 (b - first) of [inputs, stride]. Indices are blocks.
template <class T>
struct UnpackWeight {
  const uint8_t* data;
  const float* row_scales;
  const bf16* group_scales;
  T* out;
  int64_t first, stride, inputs, groups;
};

}  // namespace satformer::rows
