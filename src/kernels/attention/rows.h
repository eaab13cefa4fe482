// Row kernels of the CPU's tiled attention (cpu.cpp): softmax of a tile of scores, its gradient, and the layouts in
// which the matrix products read their operands.
#pragma once

#include "kernels/row_math.h"

namespace satformer::rows {

// Elements of a column that a product's right operand holds side by side: bf16 products multiply pairs.
template <class T>
inline constexpr int64_t packed_pair = 1;
template <>
inline constexpr int64_t packed_pair<bf16> = 2;

// Query row r stands at position `query_position` + r; keys at `key_position` + i. A query sees keys at positions
// (own - window, own] if causal, (own - window, infinity) otherwise; window <= 0: no window. With documents it sees
// none outside its own.
struct TileMask {
  int64_t query_position, key_position;
  int64_t queries, keys;  // valid ones of the tile
  int64_t window;
  bool causal;
  // Positions between which the document of each row lies (rows are queries, or keys in the gradient); null: one
  // document.
  const int64_t *document_begin, *document_end;
};
// [first, last) of `count` columns, the first of which stands at position `column`, without other documents.
SATFORMER_HD void visible_columns(const TileMask& m, int64_t row, int64_t column, int64_t first, int64_t last,
                                  int64_t count, int64_t* begin, int64_t* end) {
  const int64_t least = m.document_begin && m.document_begin[row] > column ? m.document_begin[row] - column : 0;
  const int64_t most = m.document_end && m.document_end[row] - column < count ? m.document_end[row] - column : count;
  first = first < least ? least : first;
  last = last > most ? most : last;
  *begin = first < last ? first : 0;
  *end = first < last ? last : 0;
}
// Visible keys of a query row, [*begin, *end) within the tile.
SATFORMER_HD void visible_keys_of(const TileMask& m, int64_t row, int64_t* begin, int64_t* end) {
  const int64_t own = m.query_position + row - m.key_position;
  visible_columns(m, row, m.key_position, m.window > 0 ? own - m.window + 1 : 0, m.causal ? own + 1 : m.keys, m.keys,
                  begin, end);
}
// Queries that see a key row, likewise.
SATFORMER_HD void visible_queries_of(const TileMask& m, int64_t row, int64_t* begin, int64_t* end) {
  const int64_t own = m.key_position + row - m.query_position;
  visible_columns(m, row, m.query_position, m.causal ? own : 0, m.window > 0 ? own + m.window : m.queries, m.queries,
                  begin, end);
}

// One tile of the online softmax, rows = queries: the running maximum and sum take in the tile's scores, what was
// summed before is rescaled, and the tile's weights are written.
template <class T>
struct FlashSoftmax {
  const float* scores;  // [rows, width], unscaled
  T* weights;           // [rows, width]: exp(scale * score - maximum), 0 where not seen
  int64_t width;
  float *maximum, *sum;  // [rows]
  float* out;            // [rows, head_dim]
  int64_t head_dim;
  float scale;
  TileMask mask;
};
template <class T>
SATFORMER_HD void flash_softmax(const FlashSoftmax<T>& a, int64_t begin, int64_t end) {
  for (int64_t r = begin; r < end; ++r) {
    const float* s = a.scores + r * a.width;
    T* w = a.weights + r * a.width;
    int64_t lo, hi;
    visible_keys_of(a.mask, r, &lo, &hi);
    if (lo < hi) {
      float largest = s[lo];
#pragma omp simd reduction(max : largest)
      for (int64_t i = lo; i < hi; ++i) largest = largest < s[i] ? s[i] : largest;
      largest = largest * a.scale > a.maximum[r] ? largest * a.scale : a.maximum[r];
      if (largest > a.maximum[r]) {
        const float factor = exp_fp32(a.maximum[r] - largest);
        float* out = a.out + r * a.head_dim;
#pragma omp simd
        for (int64_t i = 0; i < a.head_dim; ++i) out[i] *= factor;
        a.sum[r] *= factor;
        a.maximum[r] = largest;
      }
      const float scale = a.scale;
      float sum = 0.0f;
#pragma omp simd reduction(+ : sum)
      for (int64_t i = lo; i < hi; ++i) {
        const float p = exp_nonpositive(scale * s[i] - largest);
        sum += p;
        store_number(w + i, p);
      }
      a.sum[r] += sum;
    }
#pragma omp simd
    for (int64_t i = 0; i < lo; ++i) store(w + i, 0.0f);
#pragma omp simd
    for (int64_t i = hi; i < a.width; ++i) store(w + i, 0.0f);
  }
}

// The end of a row of queries: out / sum, and the logarithm of the sum of exponentials, +infinity for a query that
// saw nothing (its weights are then 0 in the gradient).
template <class T>
struct FlashFinish {
  const float *maximum, *sum, *accumulated;  // [rows], [rows], [rows, head_dim]
  T* out;                                    // [rows], `stride` apart
  float* log_sum;                            // [rows]
  int64_t head_dim, stride;
};
template <class T>
SATFORMER_HD void flash_finish(const FlashFinish<T>& a, int64_t begin, int64_t end) {
  for (int64_t r = begin; r < end; ++r) {
    const float sum = a.sum[r], factor = sum > 0.0f ? 1.0f / sum : 0.0f;
    const float* from = a.accumulated + r * a.head_dim;
    T* to = a.out + r * a.stride;
#pragma omp simd
    for (int64_t i = 0; i < a.head_dim; ++i) store(to + i, from[i] * factor);
    a.log_sum[r] = sum > 0.0f ? a.maximum[r] + __builtin_logf(sum) : __builtin_inff();
  }
}

// The gradient of one tile, rows = keys, columns = queries (width of them, a multiple of 16):
//   weights = exp(scale * score - log_sum);  dscores = weights * (dweights - delta), still to be scaled.
template <class T>
struct FlashGrad {
  const float *scores, *dweights;  // [rows, width]
  T *weights, *dscores;            // [rows, width], 0 where not seen
  int64_t width;
  const float *log_sum, *delta;  // [width]
  float scale;
  TileMask mask;
};
template <class T>
SATFORMER_HD void flash_grad(const FlashGrad<T>& a, int64_t begin, int64_t end) {
  for (int64_t r = begin; r < end; ++r) {
    const float *s = a.scores + r * a.width, *dw = a.dweights + r * a.width;
    T *w = a.weights + r * a.width, *ds = a.dscores + r * a.width;
    int64_t lo, hi;
    visible_queries_of(a.mask, r, &lo, &hi);
    const float scale = a.scale;
#pragma omp simd
    for (int64_t i = lo; i < hi; ++i) {
      const float p = exp_nonpositive(scale * s[i] - a.log_sum[i]);
      store(w + i, p);
      store(ds + i, p * (dw[i] - a.delta[i]));
    }
#pragma omp simd
    for (int64_t i = 0; i < lo; ++i) {
      store(w + i, 0.0f);
      store(ds + i, 0.0f);
    }
#pragma omp simd
    for (int64_t i = hi; i < a.width; ++i) {
      store(w + i, 0.0f);
      store(ds + i, 0.0f);
    }
  }
}

// delta = sum over the head's elements of dout * out, one for each row.
template <class T>
struct FlashDelta {
  const T *out, *dout;  // rows `out_stride`, `dout_stride` apart
  float* delta;         // [rows]
  int64_t head_dim, out_stride, dout_stride;
};
template <class T>
SATFORMER_HD void flash_delta(const FlashDelta<T>& a, int64_t begin, int64_t end) {
  for (int64_t r = begin; r < end; ++r) {
    const T *o = a.out + r * a.out_stride, *d = a.dout + r * a.dout_stride;
    float sum = 0.0f;
#pragma omp simd reduction(+ : sum)
    for (int64_t i = 0; i < a.head_dim; ++i) sum += load(o[i]) * load(d[i]);
    a.delta[r] = sum;
  }
}

// Rows [begin, end) of `from` (`columns` wide, `stride` apart) into a right operand of products.
template <class T>
struct FlashPack {
  const T* from;
  T* to;
  int64_t columns, stride;
  int64_t width;  // pack_columns, transpose: columns of the result; from's rows
};
// As a right operand with a depth of from's rows: [rows / pair, columns, pair]. `begin` and `end` are even for pairs;
// an odd last row is written with a row of zeros where end - begin is odd.
template <class T>
SATFORMER_HD void flash_pack_rows(const FlashPack<T>& a, int64_t begin, int64_t end) {
  if constexpr (packed_pair<T> == 1) {
    for (int64_t r = begin; r < end; ++r) {
      const T* from = a.from + r * a.stride;
      T* to = a.to + r * a.columns;
#pragma omp simd
      for (int64_t i = 0; i < a.columns; ++i) to[i] = from[i];
    }
  } else {
    for (int64_t r = begin; r < end; r += 2) {
      const T* first = a.from + r * a.stride;
      T* to = a.to + r * a.columns;
      if (r + 1 < end) {
        const T* second = first + a.stride;
#pragma omp simd
        for (int64_t i = 0; i < a.columns; ++i) {
          to[2 * i].bits = first[i].bits;
          to[2 * i + 1].bits = second[i].bits;
        }
      } else {
#pragma omp simd
        for (int64_t i = 0; i < a.columns; ++i) {
          to[2 * i].bits = first[i].bits;
          to[2 * i + 1].bits = 0;
        }
      }
    }
  }
}
// As a right operand with a depth of from's columns: [columns / pair, width, pair].
template <class T>
SATFORMER_HD void flash_pack_columns(const FlashPack<T>& a, int64_t begin, int64_t end) {
  constexpr int64_t pair = packed_pair<T>;
  for (int64_t r = begin; r < end; ++r) {
    const T* from = a.from + r * a.stride;
    T* to = a.to + r * pair;
    for (int64_t i = 0; i < a.columns; i += pair) {
      for (int64_t p = 0; p < pair; ++p) to[i * a.width + p] = from[i + p];
    }
  }
}
// As a left operand with a depth of from's rows: [columns, width].
template <class T>
SATFORMER_HD void flash_transpose(const FlashPack<T>& a, int64_t begin, int64_t end) {
  for (int64_t i = 0; i < a.columns; ++i) {
    const T* from = a.from + i;
    T* to = a.to + i * a.width;
    for (int64_t r = begin; r < end; ++r) to[r] = from[r * a.stride];
  }
}

// out[r, i] = scale * from[i, r]: a transposed accumulator into rows `stride` apart.
template <class T>
struct FlashStore {
  const float* from;  // [columns, width], or [rows, columns] for flash_store
  T* out;
  int64_t columns, width, stride;
  float scale;
};
template <class T>
SATFORMER_HD void flash_store_transposed(const FlashStore<T>& a, int64_t begin, int64_t end) {
  for (int64_t r = begin; r < end; ++r) {
    T* out = a.out + r * a.stride;
    for (int64_t i = 0; i < a.columns; ++i) store(out + i, a.scale * a.from[i * a.width + r]);
  }
}
template <class T>
SATFORMER_HD void flash_store(const FlashStore<T>& a, int64_t begin, int64_t end) {
  for (int64_t r = begin; r < end; ++r) {
    const float* from = a.from + r * a.columns;
    T* out = a.out + r * a.stride;
#pragma omp simd
    for (int64_t i = 0; i < a.columns; ++i) store(out + i, a.scale * from[i]);
  }
}

}  // namespace satformer::rows
