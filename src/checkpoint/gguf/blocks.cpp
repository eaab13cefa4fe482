#include "checkpoint/gguf/blocks.h"

#include <ATen/ops/empty.h>
#include <c10/util/Half.h>

#include <algorithm>
#include <cmath>
#include <cstring>

namespace satformer {
namespace {

constexpr std::size_t q8_0_bytes = q8_0_block + 2;

at::ScalarType scalar_of(GgufType type) {
  return type == GgufType::f32 ? at::kFloat : type == GgufType::f16 ? at::kHalf : at::kBFloat16;
}

void quantise_block(const float* values, std::byte* block) {
  float largest = 0;
  for (int i = 0; i < q8_0_block; ++i) largest = std::max(largest, std::abs(values[i]));
  const float scale = largest / 127;
  const c10::Half stored(scale);
  std::memcpy(block, &stored.x, 2);
  for (int i = 0; i < q8_0_block; ++i) {
    block[2 + i] = static_cast<std::byte>(static_cast<std::int8_t>(scale > 0 ? std::lround(values[i] / scale) : 0));
  }
}

void expand_block(const std::byte* block, float* values) {
  std::uint16_t bits = 0;
  std::memcpy(&bits, block, 2);
  const float scale = c10::Half(bits, c10::Half::from_bits());
  for (int i = 0; i < q8_0_block; ++i) {
    values[i] = scale * static_cast<float>(static_cast<std::int8_t>(block[2 + i]));
  }
}

}  // namespace

std::vector<std::byte> gguf_bytes(const at::Tensor& tensor, GgufType type) {
  if (type != GgufType::q8_0) {
    const at::Tensor converted = tensor.to(scalar_of(type)).contiguous();
    const auto* begin = static_cast<const std::byte*>(converted.const_data_ptr());
    return {begin, begin + converted.nbytes()};
  }
  const at::Tensor values = tensor.to(at::kFloat).contiguous();
  const auto blocks = static_cast<std::size_t>(values.numel() / q8_0_block);
  std::vector<std::byte> bytes(blocks * q8_0_bytes);
  const float* data = values.const_data_ptr<float>();
  for (std::size_t i = 0; i < blocks; ++i) quantise_block(data + i * q8_0_block, bytes.data() + i * q8_0_bytes);
  return bytes;
}

at::Tensor tensor_from_gguf(const GgufTensor& tensor) {
  at::Tensor result = at::empty(tensor.shape, at::kFloat);
  if (tensor.type == GgufType::q8_0) {
    auto* values = result.mutable_data_ptr<float>();
    for (std::size_t i = 0; i * q8_0_bytes < tensor.data.size(); ++i) {
      expand_block(tensor.data.data() + i * q8_0_bytes, values + i * q8_0_block);
    }
    return result;
  }
  at::Tensor stored = at::empty(tensor.shape, scalar_of(tensor.type));
  std::memcpy(stored.mutable_data_ptr(), tensor.data.data(), tensor.data.size());
  return result.copy_(stored);
}

}  // namespace satformer
