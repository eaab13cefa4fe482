// Products of weights with few rows of activations, for the instruction set of the including file (kernels/isa).
// Every output is summed in an order of its own that does not depend on how many rows there are.
#pragma once

#include "kernels/isa/vectors.h"
#include "kernels/linear/rows.h"

namespace satformer::rows {

static constexpr int block_parts = static_cast<int>(linear_block) / lanes;
// Weights are read in the order of memory, and asked for into the second-level cache so many bytes ahead: with a
// processor's own prefetching alone each page and each new stream starts slowly (a sixth of the bandwidth).
static constexpr int prefetched = 8192;

SATFORMER_INLINE void prefetch_weights(const void* at, int64_t bytes) {
  for (int64_t line = 0; line < bytes; line += 64) __builtin_prefetch(static_cast<const char*>(at) + line, 0, 2);
}

// R outputs from `output` on for M rows from `row` on.
template <int R, int M, class T>
SATFORMER_INLINE void dense_tile(const DenseLinear<T>& a, int64_t output, int64_t row) {
  Floats sum[R][M][2] = {};
  const T* w = a.weight + output * a.inputs;
  const float* x = a.x + row * a.inputs;
  constexpr int step = 2 * lanes * static_cast<int>(sizeof(T));  // bytes of one weight row
  const char* ahead = reinterpret_cast<const char*>(w) + prefetched;
  const bool ask = row == 0;
  int64_t k = 0;
  for (; k + 2 * lanes <= a.inputs; k += 2 * lanes) {
#pragma GCC unroll 2
    for (int half = 0; half < 2; ++half) {
      const int64_t at = k + half * lanes;
      Floats xs[M];
#pragma GCC unroll 4
      for (int m = 0; m < M; ++m) xs[m] = floats_at(x + m * a.inputs + at);
#pragma GCC unroll 8
      for (int r = 0; r < R; ++r) {
        if (half == 0 && ask) {
          prefetch_weights(ahead, step);
          ahead += step;
        }
        const Floats ws = floats_at(w + r * a.inputs + at);
#pragma GCC unroll 4
        for (int m = 0; m < M; ++m) sum[r][m][half] += ws * xs[m];
      }
    }
  }
  // Unrolled like all loops over `sum`, which otherwise is no set of registers.
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r) {
#pragma GCC unroll 4
    for (int m = 0; m < M; ++m) {
      float total = sum_of(sum[r][m][0] + sum[r][m][1]);
      for (int64_t i = k; i < a.inputs; ++i) total += load(w[r * a.inputs + i]) * x[m * a.inputs + i];
      if (a.bias) total += load(a.bias[output + r]);
      store(a.y + (row + m) * a.outputs + output + r, total);
    }
  }
}

template <int R, class T>
SATFORMER_INLINE void dense_rows(const DenseLinear<T>& a, int64_t output) {
  int64_t m = 0;
  for (; m + 4 <= a.rows; m += 4) dense_tile<R, 4>(a, output, m);
  for (; m < a.rows; ++m) dense_tile<R, 1>(a, output, m);
}

template <class T>
static inline void dense_linear(const DenseLinear<T>& a, int64_t begin, int64_t end) {
  int64_t n = begin * linear_block;
  const int64_t last = end * linear_block < a.outputs ? end * linear_block : a.outputs;
  // A single row of activations is multiplied fastest with one weight row of bf16 at a time, or two of fp32.
  const bool pairs = sizeof(T) == 4 || a.rows > 1;
  for (; pairs && n + 2 <= last; n += 2) dense_rows<2>(a, n);
  for (; n < last; ++n) dense_rows<1>(a, n);
}

// The sums of one group of inputs: acc[m][p] over lanes of outputs. Returns where the next group's weights are.
template <int M>
SATFORMER_INLINE const uint8_t* int8_group(const uint8_t* w, const int16_t* x, Ints (&acc)[M][block_parts]) {
#pragma GCC unroll 16
  for (int pair = 0; pair < linear_group / 2; ++pair) {
    Shorts xs[M];
#pragma GCC unroll 4
    for (int m = 0; m < M; ++m) {
      int32_t two;
      __builtin_memcpy(&two, x + m * linear_group + 2 * pair, sizeof two);
      xs[m] = reinterpret_cast<Shorts>(broadcast(two));
    }
#pragma GCC unroll 4
    for (int p = 0; p < block_parts; ++p) {
      const Shorts ws = shorts_at(w + 32 * pair + 2 * lanes * p);
#pragma GCC unroll 4
      for (int m = 0; m < M; ++m) acc[m][p] = add_products(acc[m][p], ws, xs[m]);
    }
  }
  return w + linear_group * linear_block;
}
template <int M>
SATFORMER_INLINE const uint8_t* int4_group(const uint8_t* w, const int16_t* x, Ints (&acc)[M][block_parts]) {
#pragma GCC unroll 4
  for (int part = 0; part < 4; ++part) {
#pragma GCC unroll 4
    for (int p = 0; p < block_parts; ++p) {
      const Nibbles words = *reinterpret_cast<const NibblesAt*>(w + 64 * part + 4 * lanes * p);
#pragma GCC unroll 4
      for (int i = 0; i < 4; ++i) {
        const Nibbles nibbles = i < 3 ? (words >> (4 * i)) & 15 : words >> 12;
#pragma GCC unroll 4
        for (int m = 0; m < M; ++m) {
          int32_t two;
          __builtin_memcpy(&two, x + m * linear_group + 8 * part + 2 * i, sizeof two);
          acc[m][p] =
              add_products(acc[m][p], reinterpret_cast<Shorts>(nibbles), reinterpret_cast<Shorts>(broadcast(two)));
        }
      }
    }
  }
  return w + linear_group * linear_block / 2;
}

// One block of 16 outputs for M rows from `row` on.
template <int M, bool four_bits, class T>
SATFORMER_INLINE void packed_tile(const PackedLinear<T>& a, int64_t block, int64_t row) {
  Floats sum[M][block_parts] = {};
  const uint8_t* w = a.data + block * a.groups * linear_group * linear_block / (four_bits ? 2 : 1);
  for (int64_t g = 0; g < a.groups; ++g) {
    const int16_t* x = a.x + (g * a.rows + row) * linear_group;
    const float* x_scales = a.x_scales + g * a.rows + row;
    const int32_t* x_sums = a.x_sums + g * a.rows + row;
    Ints acc[M][block_parts];
#pragma GCC unroll 4
    for (int m = 0; m < M; ++m) {
#pragma GCC unroll 4
      // 8 stands for zero.
      for (int p = 0; p < block_parts; ++p) acc[m][p] = broadcast(four_bits ? -8 * x_sums[m] : 0);
    }
    if (row == 0) prefetch_weights(w + prefetched, linear_group * linear_block / (four_bits ? 2 : 1));
    if constexpr (four_bits) {
      w = int4_group<M>(w, x, acc);
    } else {
      w = int8_group<M>(w, x, acc);
    }
#pragma GCC unroll 4
    for (int m = 0; m < M; ++m) {
      const float x_scale = x_scales[m];
#pragma GCC unroll 4
      for (int p = 0; p < block_parts; ++p) {
        const Floats products = __builtin_convertvector(acc[m][p], Floats) * x_scale;
        if constexpr (four_bits) {
          sum[m][p] += products * floats_at(a.group_scales + (block * a.groups + g) * linear_block + p * lanes);
        } else {
          sum[m][p] += products;
        }
      }
    }
  }
  const int64_t first = block * linear_block;
  const int64_t count = a.outputs - first < linear_block ? a.outputs - first : linear_block;
#pragma GCC unroll 4
  for (int m = 0; m < M; ++m) {
    float total[linear_block];
#pragma GCC unroll 4
    for (int p = 0; p < block_parts; ++p) {
      Floats part = sum[m][p];
      if constexpr (!four_bits) part *= floats_at(a.row_scales + first + p * lanes);
      __builtin_memcpy(total + p * lanes, &part, sizeof part);
    }
    for (int64_t i = 0; i < count; ++i) {
      const float bias = a.bias ? load(a.bias[first + i]) : 0.0f;
      store(a.y + (row + m) * a.outputs + first + i, total[i] + bias);
    }
  }
}

template <bool four_bits, class T>
static inline void packed_blocks(const PackedLinear<T>& a, int64_t begin, int64_t end) {
  for (int64_t b = begin; b < end; ++b) {
    int64_t m = 0;
    for (; m + 4 <= a.rows; m += 4) packed_tile<4, four_bits>(a, b, m);
    for (; m + 2 <= a.rows; m += 2) packed_tile<2, four_bits>(a, b, m);
    for (; m < a.rows; ++m) packed_tile<1, four_bits>(a, b, m);
  }
}
template <class T>
static inline void packed_linear(const PackedLinear<T>& a, int64_t begin, int64_t end) {
  if (a.row_scales) {
    packed_blocks<false>(a, begin, end);
  } else {
    packed_blocks<true>(a, begin, end);
  }
}

template <class T>
static inline void quantise_rows(const QuantiseRows<T>& a, int64_t begin, int64_t end) {
  const float magic = 12582912.0f;  // 1.5 * 2^23: adding it rounds to an integer
  for (int64_t r = begin; r < end; ++r) {
    for (int64_t g = 0; g < a.groups; ++g) {
      const T* x = a.x + r * a.inputs + g * linear_group;
      int16_t* q = a.q + (g * a.rows + r) * linear_group;
      const int64_t left = a.inputs - g * linear_group, count = left < linear_group ? left : linear_group;
      float value[linear_group] = {};
      for (int64_t i = 0; i < count; ++i) value[i] = load(x[i]);
      float largest = 0.0f, not_finite = 0.0f;
#pragma omp simd reduction(max : largest) reduction(+ : not_finite)
      for (int64_t i = 0; i < linear_group; ++i) {
        const float magnitude = value[i] < 0.0f ? -value[i] : value[i];
        largest = largest < magnitude ? magnitude : largest;
        not_finite += value[i] * 0.0f;  // NaN for what is infinite or NaN
      }
      const bool usable = largest > 1e-30f && not_finite == 0.0f;
      const float inverse = usable ? 32767.0f / largest : 0.0f;
      int32_t sum = 0;
#pragma omp simd reduction(+ : sum)
      for (int64_t i = 0; i < linear_group; ++i) {
        const float rounded = usable ? (value[i] * inverse + magic) - magic : 0.0f;
        const int32_t integer = static_cast<int32_t>(rounded);
        q[i] = static_cast<int16_t>(integer);
        sum += integer;
      }
      a.scales[g * a.rows + r] = (usable ? largest / 32767.0f : 0.0f) + not_finite;
      a.sums[g * a.rows + r] = sum;
    }
  }
}

template <class T>
static inline void unpack_weight(const UnpackWeight<T>& a, int64_t begin, int64_t end) {
  for (int64_t b = begin; b < end; ++b) {
    T* out = a.out + (b - a.first) * linear_block;
    for (int64_t k = 0; k < a.inputs; ++k) {
      const int64_t group = k / linear_group, within = k % linear_group;
      float value[linear_block];
      if (a.row_scales) {
        const uint8_t* w = a.data + ((b * a.groups + group) * linear_group + within / 2 * 2) * linear_block;
        const float* scales = a.row_scales + b * linear_block;
        const int shift = within % 2 == 0 ? 8 : 0;
#pragma omp simd
        for (int64_t i = 0; i < linear_block; ++i) {
          // Two bytes at once, the wanted one moved to the top.
          const int32_t two = static_cast<int32_t>(w[2 * i]) | (static_cast<int32_t>(w[2 * i + 1]) << 8);
          value[i] = static_cast<float>(static_cast<int16_t>(two << shift) >> 8) * scales[i];
        }
      } else {
        const uint8_t* w = a.data + (b * a.groups + group) * linear_group * linear_block / 2 + within / 8 * 64;
        const bf16* scales = a.group_scales + (b * a.groups + group) * linear_block;
        const int64_t byte = 2 * (within % 2) + within % 8 / 4;
        const int shift = static_cast<int>(within % 4 / 2 * 4);
#pragma omp simd
        for (int64_t i = 0; i < linear_block; ++i) {
          value[i] = static_cast<float>(((w[4 * i + byte] >> shift) & 15) - 8) * load(scales[i]);
        }
      }
#pragma omp simd
      for (int64_t i = 0; i < linear_block; ++i) store(out + k * a.stride + i, value[i]);
    }
  }
}

}  // namespace satformer::rows
