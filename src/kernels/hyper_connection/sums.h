// How the gradients of a read's parameters are gathered, on the CPU and on the GPU.
#pragma once

#include "kernels/row_math.h"

namespace satformer {

// Sums over tokens of a block, one row of floats: where each begins. dstatic_alpha comes first.
struct HyperSums {
  int at_static_beta, at_scales, at_dz, at_proj, width;
};
SATFORMER_HD HyperSums hyper_sums(int n, int columns) {
  const int at_static_beta = n * (n + 1), at_scales = at_static_beta + n, at_dz = at_scales + 2,
            at_proj = at_dz + n + 2;
  return {at_static_beta, at_scales, at_dz, at_proj, at_proj + (n + 2) * columns};
}

}  // namespace satformer
