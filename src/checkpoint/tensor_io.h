// Tensors to and from safetensors views.
#pragma once

#include "io/safetensors.h"
#include "kernels/tensor.h"

namespace satformer {

// The view must outlive the returned tensor only if it is not copied: the result owns its memory.
at::Tensor tensor_from_view(const TensorView& view);
// `tensor` must be a contiguous CPU tensor that outlives the view.
TensorView view_of_tensor(const std::string& name, const at::Tensor& tensor);
// "[2, 3]", for messages.
std::string shape_text(at::IntArrayRef shape);

}  // namespace satformer
