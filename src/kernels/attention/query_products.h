// The attention of few queries, for the instruction set of the including file (kernels/isa).
#pragma once

#include "kernels/attention/query_rows.h"
#include "kernels/isa/vectors.h"

namespace satformer::rows {

// A head's part of the slots lies too far apart for the processor's own prefetching: it is asked for so many slots
// before it is read, into the second-level cache, and what is read next when a row of slots ends.
static constexpr int slots_ahead = 32;
template <class T>
struct SlotsAhead {
  const T *at, *next;  // of slot 0, and of the first slot of what is read next
  int64_t stride, next_stride, end;

  [[gnu::always_inline]] void ask(int64_t slot, int64_t D) const {
    const int64_t s = slot + slots_ahead;
    const auto* line = reinterpret_cast<const char*>(s < end ? at + s * stride : next + (s - end) * next_stride);
    for (int64_t byte = 0; byte < D * static_cast<int64_t>(sizeof(T)); byte += 64)
      __builtin_prefetch(line + byte, 0, 2);
  }
};

// scores[i] = <q, key i> for `count` keys.
template <int count, class T>
SATFORMER_INLINE void query_scores(const float* q, const T* keys, int64_t stride, int64_t D, float* scores) {
  Floats sum[count] = {};
  int64_t d = 0;
  for (; d + lanes <= D; d += lanes) {
    const Floats part = floats_at(q + d);
#pragma GCC unroll 4
    for (int i = 0; i < count; ++i) sum[i] += part * floats_at(keys + i * stride + d);
  }
#pragma GCC unroll 4
  for (int i = 0; i < count; ++i) {
    float total = sum_of(sum[i]);
    for (int64_t rest = d; rest < D; ++rest) total += q[rest] * load(keys[i * stride + rest]);
    scores[i] = total;
  }
}

// out[d] = factor * sum_j weight[j] value_j[d]
template <class T>
SATFORMER_INLINE void weigh_values(const float* weights, const T* values, int64_t stride, int64_t D, int64_t lo,
                                   int64_t hi, float factor, const SlotsAhead<T>& ahead, T* out) {
  int64_t d = 0;
  for (; d + 4 * lanes <= D; d += 4 * lanes) {
    Floats sum[4] = {};
    for (int64_t j = lo; j < hi; ++j) {
      if (d == 0) ahead.ask(j, D);
#pragma GCC unroll 4
      for (int i = 0; i < 4; ++i) sum[i] += weights[j] * floats_at(values + j * stride + d + i * lanes);
    }
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) {
      const Floats scaled = sum[i] * factor;
      for (int l = 0; l < lanes; ++l) store(out + d + i * lanes + l, scaled[l]);
    }
  }
  for (; d + lanes <= D; d += lanes) {
    Floats sum = {};
    for (int64_t j = lo; j < hi; ++j) sum += weights[j] * floats_at(values + j * stride + d);
    sum *= factor;
    for (int l = 0; l < lanes; ++l) store(out + d + l, sum[l]);
  }
  for (; d < D; ++d) {
    float sum = 0.0f;
    for (int64_t j = lo; j < hi; ++j) sum += weights[j] * load(values[j * stride + d]);
    store(out + d, sum * factor);
  }
}

template <class T>
static inline void few_queries(const FewQueries<T>& a, int64_t begin, int64_t end) {
  const int64_t D = a.head_dim, groups = a.heads / a.kv_heads;
  const float scale = 1.0f / __builtin_sqrtf(static_cast<float>(D));
  float* weights = a.scratch;
  float* query = a.scratch + a.slots;
  for (int64_t index = begin; index < end; ++index) {
    const int64_t b = index / a.kv_heads, kv = index % a.kv_heads;
    const T* keys = a.k + b * a.key_row + kv * D;
    const T* values = a.v + b * a.value_row + kv * D;
    const bool* valid = a.valid ? a.valid + b * a.valid_stride : nullptr;
    for (int64_t i = 0; i < a.queries * groups; ++i) {
      const int64_t t = i / groups, head = kv * groups + i % groups;
      const int64_t at = ((b * a.queries + t) * a.heads + head) * D;
      const int64_t own = a.own_slot[b * a.queries + t];
      const int64_t hi = own + 1 < a.slots ? own + 1 : a.slots;
      const int64_t lo = a.window > 0 && own - a.window + 1 > 0 ? own - a.window + 1 : 0;
      for (int64_t d = 0; d < D; ++d) query[d] = load(a.q[at + d]) * scale;
      const SlotsAhead<T> keys_ahead{keys, values + lo * a.value_slot, a.key_slot, a.value_slot, hi};
      // Behind the values come the keys of the next head or query.
      const SlotsAhead<T> values_ahead{values, keys + lo * a.key_slot + D, a.value_slot, a.key_slot, hi};
      int64_t slot = lo;
      for (; slot + 4 <= hi; slot += 4) {
        for (int64_t s = slot; s < slot + 4; ++s) keys_ahead.ask(s, D);
        query_scores<4>(query, keys + slot * a.key_slot, a.key_slot, D, weights + slot);
      }
      for (; slot < hi; ++slot) query_scores<1>(query, keys + slot * a.key_slot, a.key_slot, D, weights + slot);
      float largest = -__builtin_inff();
      if (valid) {
        for (int64_t j = lo; j < hi; ++j) {
          if (!valid[j]) weights[j] = -__builtin_inff();
        }
      }
#pragma omp simd reduction(max : largest)
      for (int64_t j = lo; j < hi; ++j) largest = largest < weights[j] ? weights[j] : largest;
      float sum = 0.0f;
#pragma omp simd reduction(+ : sum)
      for (int64_t j = lo; j < hi; ++j) {
        // A score of -infinity is a pad's; a largest one of -infinity leaves none.
        const float p = exp_nonpositive(weights[j] - largest);
        const float seen = weights[j] == -__builtin_inff() ? 0.0f : p;
        sum += seen;
        weights[j] = seen;
      }
      weigh_values(weights, values, a.value_slot, D, lo, hi, sum != 0.0f ? 1.0f / sum : 0.0f, values_ahead,
                   a.out + at);
    }
  }
}

}  // namespace satformer::rows
