// at::Tensor with its methods and operators, without the rest of libtorch: include this instead of ATen/ATen.h or
// torch/torch.h, and single ATen/ops/<name>.h for the functions used. A file costs 4 s to compile so, 20 s otherwise.
#pragma once

#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
