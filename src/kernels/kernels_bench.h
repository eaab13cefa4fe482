// For the kernels' benchmarks: one front, fused and reference, forward alone and with backward.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "kernels/autograd.h"
#include "kernels/tensor.h"

namespace satformer::benchmarks {

// The shapes of the comparison with eager code; SATFORMER_BENCH_POSITIONS=N and SATFORMER_BENCH_ROWS=N take other T
// and B.
std::int64_t count_from(const char* variable, std::int64_t otherwise);
inline const std::int64_t B = count_from("SATFORMER_BENCH_ROWS", 4), T = count_from("SATFORMER_BENCH_POSITIONS", 512);
inline constexpr std::int64_t D = 512, heads = 8, head_dim = 64, F = 2048, V = 32000, layers = 8;

at::Tensor random_tensor(std::vector<std::int64_t> shape, double scale = 1.0);

// Registers NAME/{fused,reference}/{forward,both}. `make_inputs` runs once per benchmark; floating-point inputs get
// gradients, and all outputs take part in backward.
struct Front {
  std::string name;
  std::function<TensorList()> make_inputs;
  std::function<TensorList(const TensorList&)> body;
};
void add(const Front& front);
// Registers NAME/{fused,reference}, for what has no gradient.
void add_plain(const std::string& name, const std::function<std::function<void()>()>& make);

// One per front, in its own file.
void add_adamw();
void add_attention();
void add_dense_average();
void add_depth_aggregate();
void add_hyper_connection();
void add_linear();
void add_linear_cross_entropy();
void add_qk_norm_rope();
void add_rms_norm();
void add_swiglu();
void add_value_gate();

}  // namespace satformer::benchmarks
