// Arguments of the row kernels of depth aggregation. A row is one token.
#pragma once

#include "kernels/row_math.h"

namespace satformer::rows {

template <class T>
struct DepthAggregate {
  const T* const* states;    // [states_count], each [tokens, columns]
  const float* weights;      // [tokens, ways, states_count]
  const float* const* pre;   // [states_count] norm weights, or null
  const float* const* post;  // [ways] norm weights, or null
  T* const* out;             // forward: [ways]
  const T* const* dy;        // backward: [ways], each or null (zero)
  const T* const* passed;    // backward: [states_count], the gradient of each state as it goes on, or null
  T* const* dstates;         // backward: [states_count], each or null
  float* dweights;           // backward: as weights, or null
  float* dpre;               // backward: [states_count, columns], added to; or null
  float* dpost;              // backward: [ways, columns], added to; or null
  float* scratch;            // of the calling thread: ways * columns + states_count
  int64_t states_count, ways, columns;
  float eps;
};

}  // namespace satformer::rows
