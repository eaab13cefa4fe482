// Optional per-head RMS norm of queries or keys, then rotary position embedding (NeoX halves).
//   o_first = x_first*cos - x_second*sin,  o_second = x_first*sin + x_second*cos,  angle = position * theta^(-2i/D)
#pragma once

#include "kernels/tensor.h"

namespace satformer {

// Tables of fp32 cosines and sines for every position.
struct RopeTable {
  at::Tensor cos_PD, sin_PD;  // [positions, head_dim / 2], fp32
};
// Frequencies f changed for contexts longer than those of the first training. none: f. linear: f / factor. llama3
// (Llama 3.1's): with t = original_positions f / 2 pi turns and s = clamp((t - low) / (high - low), 0, 1), s f + (1 -
// s) f / factor.
struct RopeScaling {
  enum class Kind { none, linear, llama3 };
  Kind kind = Kind::none;
  double factor = 1, low = 1, high = 4;
  std::int64_t original_positions = 8192;
};
// What every frequency is multiplied by, fp32 [head_dim / 2].
at::Tensor rope_factors(std::int64_t head_dim, double theta, const RopeScaling& scaling);
RopeTable make_rope_table(std::int64_t positions, std::int64_t head_dim, double theta, at::Device device,
                          const RopeScaling& scaling = {});
// The table under which every position stays as it is: of models that learn their positions.
RopeTable no_rotation(std::int64_t positions, std::int64_t head_dim, at::Device device);

// x [B, T, H, D]; weight [D] or undefined (no norm); positions_BT int64, or undefined for positions 0..T-1.
// The table is rounded to x's dtype before use. Differentiable in x and weight.
at::Tensor qk_norm_rope(const at::Tensor& x_BTHD, const at::Tensor& weight, double eps, const RopeTable& table,
                        const at::Tensor& positions_BT);

namespace reference {
at::Tensor qk_norm_rope(const at::Tensor& x_BTHD, const at::Tensor& weight, double eps, const RopeTable& table,
                        const at::Tensor& positions_BT);
}  // namespace reference
namespace cpu {
at::Tensor qk_norm_rope(const at::Tensor& x_BTHD, const at::Tensor& weight, double eps, const RopeTable& table,
                        const at::Tensor& positions_BT);
}  // namespace cpu
namespace gpu {
at::Tensor qk_norm_rope(const at::Tensor& x_BTHD, const at::Tensor& weight, double eps, const RopeTable& table,
                        const at::Tensor& positions_BT);
}  // namespace gpu

}  // namespace satformer
