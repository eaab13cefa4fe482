// The gated product on a GPU (cuda.cu). Element-wise in packs of four; reads gate and up, writes the product;
// backward reads three and writes two or three.
#pragma once

#include "kernels/gpu/where.h"
#include "kernels/row_math.h"

namespace satformer::gpu {

template <class T>
struct Swiglu {
  const T* gate;
  const T* up;
  T* y;
  int64_t count;
  bool packs;
};

template <class T>
struct SwigluGrad {
  const T* gate;
  const T* up;
  const T* dy;
  T* dgate;
  T* dup;
  T* product;  // silu(gate) * up once more; null if not wanted. May be dy itself.
  int64_t count;
  bool packs;
};

template <class T>
void swiglu(const Where& where, const Swiglu<T>& args);
template <class T>
void swiglu_grad(const Where& where, const SwigluGrad<T>& args);

}  // namespace satformer::gpu
