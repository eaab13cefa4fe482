// Row kernels of value mixing. A row is one token: `heads` values of `head_dim`, one gate logit per head.
#pragma once

#include "kernels/value_gate/math.h"

namespace satformer::rows {

// alpha[h] from one token's logits; both [heads], and may be the same array.
SATFORMER_HD void gate_row(int gate, const float* logits, float* alpha, int64_t heads) {
  float largest = logits[0], total = 0.0f;
  if (over_heads(gate)) {
    for (int64_t h = 1; h < heads; ++h) largest = largest < logits[h] ? logits[h] : largest;
    for (int64_t h = 0; h < heads; ++h) total += exp_fp32(logits[h] - largest);
  }
  for (int64_t h = 0; h < heads; ++h) alpha[h] = gate_value(gate, logits[h], largest, total, heads);
}

// dlogits from dalpha, in place; alpha as gate_row gave it.
SATFORMER_HD void gate_row_grad(int gate, const float* logits, const float* alpha, float* dalpha, int64_t heads) {
  float mean = 0.0f;
  if (over_heads(gate)) {
    for (int64_t h = 0; h < heads; ++h) mean += dalpha[h] * alpha[h];
    mean /= static_cast<float>(heads);
  }
  for (int64_t h = 0; h < heads; ++h) dalpha[h] = gate_value_grad(gate, logits[h], alpha[h], dalpha[h], mean);
}

template <class T>
struct ValueGate {
  const T* v;           // forward only
  const T* v1;          // forward; backward: read with dlogits
  const float* logits;  // [tokens, heads]
  T* out;               // forward only
  const T* dy;          // backward only
  T* dv1;               // backward, or null
  float* dlogits;       // backward, or null
  float* alpha;         // [heads], scratch of the calling thread
  int64_t heads;
  int64_t head_dim;
  int gate;
};

template <class T>
SATFORMER_HD void value_gate(const ValueGate<T>& a, int64_t begin, int64_t end) {
  const int64_t D = a.head_dim;
  for (int64_t token = begin; token < end; ++token) {
    gate_row(a.gate, a.logits + token * a.heads, a.alpha, a.heads);
    for (int64_t h = 0; h < a.heads; ++h) {
      // As the reference does, the gate is rounded to the values' type.
      const float alpha = rounded_to<T>(a.alpha[h]);
      const int64_t at = (token * a.heads + h) * D;
      const T* v = a.v + at;
      const T* v1 = a.v1 + at;
      T* out = a.out + at;
#pragma omp simd
      for (int64_t i = 0; i < D; ++i) store(out + i, load(v[i]) + alpha * load(v1[i]));
    }
  }
}

template <class T>
SATFORMER_HD void value_gate_grad(const ValueGate<T>& a, int64_t begin, int64_t end) {
  const int64_t D = a.head_dim;
  for (int64_t token = begin; token < end; ++token) {
    const float* logits = a.logits + token * a.heads;
    gate_row(a.gate, logits, a.alpha, a.heads);
    for (int64_t h = 0; h < a.heads; ++h) {
      const int64_t at = (token * a.heads + h) * D;
      const T* dy = a.dy + at;
      if (a.dv1) {
        const float alpha = rounded_to<T>(a.alpha[h]);
        T* dv1 = a.dv1 + at;
#pragma omp simd
        for (int64_t i = 0; i < D; ++i) store(dv1 + i, alpha * load(dy[i]));
      }
      if (a.dlogits) {
        const T* v1 = a.v1 + at;
        float dot = 0.0f;
#pragma omp simd reduction(+ : dot)
        for (int64_t i = 0; i < D; ++i) dot += load(dy[i]) * load(v1[i]);
        a.dlogits[token * a.heads + h] = dot;
      }
    }
    if (a.dlogits) gate_row_grad(a.gate, logits, a.alpha, a.dlogits + token * a.heads, a.heads);
  }
}

// out = lambda1 v1 + lambda2 v, and its gradient; element-wise.
template <class T>
struct StaticMix {
  const T* v;
  const T* v1;
  T* out;        // forward only
  const T* dy;   // backward only
  T* dv;         // backward, or null
  T* dv1;        // backward, or null
  double* dots;  // backward: [2], added to: sum dy v1, sum dy v; or null
  float lambda1, lambda2;
};

template <class T>
SATFORMER_HD void static_mix(const StaticMix<T>& a, int64_t begin, int64_t end) {
  const T* v = a.v;
  const T* v1 = a.v1;
  T* out = a.out;
  const float l1 = a.lambda1, l2 = a.lambda2;
#pragma omp simd
  for (int64_t i = begin; i < end; ++i) store(out + i, l1 * load(v1[i]) + l2 * load(v[i]));
}

template <class T>
SATFORMER_HD void static_mix_grad(const StaticMix<T>& a, int64_t begin, int64_t end) {
  const T* dy = a.dy;
  if (a.dv) {
    T* dv = a.dv;
    const float l2 = a.lambda2;
#pragma omp simd
    for (int64_t i = begin; i < end; ++i) store(dv + i, l2 * load(dy[i]));
  }
  if (a.dv1) {
    T* dv1 = a.dv1;
    const float l1 = a.lambda1;
#pragma omp simd
    for (int64_t i = begin; i < end; ++i) store(dv1 + i, l1 * load(dy[i]));
  }
  if (!a.dots) return;
  const T* v = a.v;
  const T* v1 = a.v1;
  for (int64_t block = begin; block < end; block += 1024) {
    const int64_t stop = block + 1024 < end ? block + 1024 : end;
    float dot1 = 0.0f, dot2 = 0.0f;
#pragma omp simd reduction(+ : dot1, dot2)
    for (int64_t i = block; i < stop; ++i) {
      dot1 += load(dy[i]) * load(v1[i]);
      dot2 += load(dy[i]) * load(v[i]);
    }
    a.dots[0] += static_cast<double>(dot1);
    a.dots[1] += static_cast<double>(dot2);
  }
}

}  // namespace satformer::rows
