// Losses and logit gradients on a GPU (cuda.cu). A block takes a row of logits and passes over it three times; the
// second and third reading come from the second-level cache, so HBM sees one reading and one writing.
#pragma once

#include "kernels/gpu/where.h"
#include "kernels/row_math.h"

namespace satformer::gpu {

template <class T>
struct CrossEntropy {
  T* logits;               // [rows, columns]; becomes d loss / d logits if `grad`
  const int64_t* targets;  // [rows], each in [0, columns) or `ignored`; another makes the row's loss NaN
  float* losses;           // [rows], 0 where ignored, unscaled
  int64_t rows;
  int columns;
  int64_t ignored;
  float scale;
  bool grad, packs;
};

template <class T>
void cross_entropy(const Where& where, const CrossEntropy<T>& args);

}  // namespace satformer::gpu
