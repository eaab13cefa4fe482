// Tensors to and from the bytes of GGUF's types.
#pragma once

#include <vector>

#include "io/gguf.h"
#include "kernels/tensor.h"

namespace satformer {

// `tensor`: on the CPU, any floating type. q8_0: blocks along rows, scale = largest / 127, both rounded to nearest.
std::vector<std::byte> gguf_bytes(const at::Tensor& tensor, GgufType type);
// fp32.
at::Tensor tensor_from_gguf(const GgufTensor& tensor);

}  // namespace satformer
