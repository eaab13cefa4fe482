// Whether all numbers of a tensor are finite, in one reading and without memory of its own.
#pragma once

#include "kernels/tensor.h"

namespace satformer {

// Integers are. Without autograd.
bool all_finite(const at::Tensor& tensor);

}  // namespace satformer
