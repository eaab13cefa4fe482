// What a model costs before it runs: parameters by part, FLOPs, memory, disk. Needs shapes only (a model on the meta
// device).
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "base/json.h"
#include "nn/model.h"

namespace satformer {

struct RunConfig;

struct ParameterCount {
  std::int64_t total = 0;
  std::int64_t matmul =
      0;  // take part in a product for every token: all but an embedding table that is only looked up
  std::vector<std::pair<std::string, std::int64_t>> parts;  // in order of first appearance
};
ParameterCount count_parameters(const Model& model);

struct Flops {
  double matmul_per_token = 0;     // forward and backward
  double attention_per_token = 0;  // forward and backward
  double per_token() const { return matmul_per_token + attention_per_token; }
};
// 6 N for the products with N parameters and 6 L T C for causal attention (half of the square; T at most the window):
// two for a multiply-add, three for forward and both gradients. Norms, mixing of streams and depth aggregation are
// left out, as is usual for MFU.
Flops training_flops(const Model& model, std::int64_t seq_length);
// Text of the formula, for output.
std::string flops_formula();

struct MemoryShape {
  std::int64_t batch_size = 1, seq_length = 1;
  bool recompute_layers = false, bfloat16 = false;
  bool masters = true;  // false: weights, gradients and optimizer state in bf16 too
};
MemoryShape memory_shape(const RunConfig& config);
struct MemoryEstimate {  // bytes
  double parameters = 0, gradients = 0, optimizer = 0, compute_copies = 0, activations = 0;
  double peak() const { return parameters + gradients + optimizer + compute_copies + activations; }
};
// Activations are counted from what each layer keeps for backward, plus the widest temporary of head and loss.
MemoryEstimate training_memory(const Model& model, const MemoryShape& shape);

// Bytes of a training checkpoint: weights and two moments, fp32 with masters, else bf16.
double checkpoint_bytes(const Model& model, bool masters = true);

// FLOP/s of the fastest of several products n^3 in `least_seconds`; n is `largest`, or less where one takes long.
double product_flops(at::Device device, at::ScalarType dtype, std::int64_t largest, double least_seconds);
// FLOP/s of a dense product of that type on this device, measured in under half a second: 1024^3 on a CPU (of fp32 if
// that is faster), 8192^3 on a GPU.
double measure_peak_flops(at::Device device, at::ScalarType dtype);

}  // namespace satformer
