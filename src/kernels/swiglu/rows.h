// Element-wise kernels of the gated feed-forward.
#pragma once

#include "kernels/row_math.h"

namespace satformer::rows {

template <class T>
struct Swiglu {
  const T* gate;
  const T* up;
  T* y;
};

template <class T>
SATFORMER_HD void swiglu(const Swiglu<T>& a, int64_t begin, int64_t end) {
  const T* gate = a.gate;
  const T* up = a.up;
  T* y = a.y;
#pragma omp simd
  for (int64_t i = begin; i < end; ++i) {
    const float g = load(gate[i]);
    store(y + i, g * sigmoid_fp32(g) * load(up[i]));
  }
}

template <class T>
struct SwigluGrad {
  const T* gate;
  const T* up;
  const T* dy;
  T* dgate;
  T* dup;
  T* product;  // silu(gate) * up once more; null if not wanted. May be dy itself.
};

template <class T>
SATFORMER_HD void swiglu_grad(const SwigluGrad<T>& a, int64_t begin, int64_t end) {
  const T* gate = a.gate;
  const T* up = a.up;
  T* dgate = a.dgate;
  T* dup = a.dup;
  const T* dy = a.dy;
  // Without a place for the product it goes where dup is about to.
  T* product = a.product ? a.product : a.dup;
#pragma omp simd
  for (int64_t i = begin; i < end; ++i) {
    const float g = load(gate[i]), u = load(up[i]), d = load(dy[i]), s = sigmoid_fp32(g);
    store(product + i, g * s * u);
    store(dgate + i, d * u * (s * (1.0f + g * (1.0f - s))));
    store(dup + i, d * (g * s));
  }
}

}  // namespace satformer::rows
