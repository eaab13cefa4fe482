// Weight matrices in 8 or 4 bits.
//   int8  W = scale_n * q, q in -127..127, one fp32 scale for each output row
//   int4  W = scale_ng * (q - 8), q in 0..15, one bf16 scale for each group of 32 inputs of a row: 4.5 bits a weight
// Sixteen output rows stand side by side, inputs in pairs, so that the kernels (products.h) read memory in order:
//   int8  [N / 16][K / 2][16 rows][2]
//   int4  [N / 16][K / 32][4][16 rows][2] words of 16 bits; nibble i of word w in part p is input 8 p + 2 i + w
// N is filled up to whole blocks and K to whole groups, with zeros.
#pragma once

#include <string>

#include "kernels/tensor.h"

namespace satformer {

enum class WeightFormat { int8, int4 };
const char* weight_format_name(WeightFormat format);

struct PackedWeight {
  static constexpr std::int64_t block = 16, group = 32;

  WeightFormat format = WeightFormat::int8;
  std::int64_t outputs = 0, inputs = 0;  // N, K
  at::Tensor data;                       // uint8
  at::Tensor scales;                     // int8: fp32 [N / 16, 16]; int4: bf16 [N / 16, K / 32, 16]

  std::int64_t blocks() const { return (outputs + block - 1) / block; }
  std::int64_t groups() const { return (inputs + group - 1) / group; }
  std::int64_t bytes() const;
};

// weight [N, K], float32 or bfloat16 on the CPU. What is not finite makes its row or group NaN.
PackedWeight pack_weight(const at::Tensor& weight_NK, WeightFormat format);
// What the packed numbers stand for, [N, K]; a transposed view.
at::Tensor unpack_weight(const PackedWeight& weight, at::ScalarType dtype);
// Bytes of a packed [N, K] matrix, scales included.
std::int64_t packed_bytes(WeightFormat format, std::int64_t outputs, std::int64_t inputs);

namespace cpu {
// Blocks [begin, end), transposed: [K, 16 * (end - begin)].
at::Tensor unpack_blocks(const PackedWeight& weight, at::ScalarType dtype, std::int64_t begin, std::int64_t end);
}  // namespace cpu

}  // namespace satformer
