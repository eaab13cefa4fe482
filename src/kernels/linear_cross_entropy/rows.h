// Row kernel of the cross-entropy: losses, and the logits' gradient over the logits themselves.
#pragma once

#include "kernels/row_math.h"

namespace satformer::rows {

template <class T>
struct CrossEntropy {
  T* logits;               // [rows, columns]; becomes d loss / d logits if `grad`
  const int64_t* targets;  // [rows], each in [0, columns) or `ignored`
  double* losses;          // [rows], 0 where ignored, unscaled
  int64_t columns;
  int64_t ignored;
  float scale;
  bool grad;
};

template <class T>
SATFORMER_HD void cross_entropy(const CrossEntropy<T>& a, int64_t begin, int64_t end) {
  const int64_t V = a.columns;
  for (int64_t r = begin; r < end; ++r) {
    T* x = a.logits + r * V;
    const int64_t target = a.targets[r];
    if (target == a.ignored) {
      a.losses[r] = 0.0;
      if (a.grad) {
#pragma omp simd
        for (int64_t i = 0; i < V; ++i) store(x + i, 0.0f);
      }
      continue;
    }
    const float target_logit = load(x[target]);
    float largest = load(x[0]);
#pragma omp simd reduction(max : largest)
    for (int64_t i = 0; i < V; ++i) {
      const float v = load(x[i]);
      largest = largest < v ? v : largest;
    }
    // Blocks keep the fp32 sums short.
    double total = 0.0;
    for (int64_t block = 0; block < V; block += 4096) {
      const int64_t stop = block + 4096 < V ? block + 4096 : V;
      float sum = 0.0f;
#pragma omp simd reduction(+ : sum)
      for (int64_t i = block; i < stop; ++i) sum += exp_fp32(load(x[i]) - largest);
      total += static_cast<double>(sum);
    }
    a.losses[r] = __builtin_log(total) + static_cast<double>(largest) - static_cast<double>(target_logit);
    if (a.grad) {
      const float factor = static_cast<float>(static_cast<double>(a.scale) / total);
#pragma omp simd
      for (int64_t i = 0; i < V; ++i) store(x + i, exp_fp32(load(x[i]) - largest) * factor);
      const float p = static_cast<float>(static_cast<double>(exp_fp32(target_logit - largest)) / total);
      store(x + target, (p - 1.0f) * a.scale);
    }
  }
}

}  // namespace satformer::rows
