// Arguments of the attention of few queries; query_products.h has the kernel.
#pragma once

#include "kernels/row_math.h"

namespace satformer::rows {

// Indices are pairs of a batch row and a KV head, row by row. Query t of a row sees the keys at slots up to its own.
template <class T>
struct FewQueries {
  const T *q, *k, *v;       // q [B, T, H, D]; k, v: heads of D elements side by side, slots and rows at strides
  T* out;                   // [B, T, H, D]
  const int64_t* own_slot;  // [B, T]
  const bool* valid;        // rows at `valid_stride`: slots that hold tokens; null: all
  float* scratch;           // of this thread: slots + D
  int64_t key_row, key_slot, value_row, value_slot, valid_stride;
  int64_t queries, heads, kv_heads, head_dim, slots, window;  // window <= 0: none
};

}  // namespace satformer::rows
