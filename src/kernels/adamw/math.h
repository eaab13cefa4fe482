// The update of one element; shared by the rows of the CPU and the GPU's programs.
#pragma once

#include "kernels/row_math.h"

namespace satformer::rows {

// Step: a struct with grad_scale, decay, beta1, one_minus_beta1, beta2, one_minus_beta2, correction2, eps, step_size.
template <class Step>
SATFORMER_HD void adamw_element(const Step& s, float* param, float grad, float* m, float* v) {
  const float g = grad * s.grad_scale;
  const float m1 = s.beta1 * *m + s.one_minus_beta1 * g;
  const float v1 = s.beta2 * *v + s.one_minus_beta2 * (g * g);
  *m = m1;
  *v = v1;
  *param = *param * s.decay - s.step_size * (m1 / (__builtin_sqrtf(v1 / s.correction2) + s.eps));
}

}  // namespace satformer::rows
