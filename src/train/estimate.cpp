#include "train/estimate.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/ones.h>

#include <algorithm>
#include <chrono>

#include "train/run_config.h"

namespace satformer {
namespace {

// States of the model's width that a layer keeps beyond a plain decoder's, for backward.
double extra_widths(const ModelConfig& c) {
  if (c.residual_routing == "mudd") return 2;  // further streams
  // The streams of one of three sublayers, and what each gave in place of a plain decoder's sum.
  if (c.residual_routing == "hyper") return 2.0 / 3.0 * static_cast<double>(c.expansion_rate) + 0.5;
  return 0;
}

double crossing_widths(const ModelConfig& c) {  // what passes from layer to layer
  if (c.residual_routing == "mudd") return 5;
  if (c.residual_routing == "hyper") return static_cast<double>(c.expansion_rate);
  return 1;
}

}  // namespace

ParameterCount count_parameters(const Model& model) {
  ParameterCount count;
  for (const Parameter& p : model.parameters().list()) {
    const std::int64_t elements = p.value.numel();
    count.total += elements;
    const bool in_product = p.kind != ParamKind::embedding || model.config().tie_word_embeddings;
    if (in_product && p.part != "positions") count.matmul += elements;
    auto it =
        std::find_if(count.parts.begin(), count.parts.end(), [&](const auto& part) { return part.first == p.part; });
    if (it == count.parts.end()) it = count.parts.insert(it, {p.part, 0});
    it->second += elements;
  }
  return count;
}

Flops training_flops(const Model& model, std::int64_t seq_length) {
  const ModelConfig& c = model.config();
  const std::int64_t span = c.window_size ? std::min(seq_length, 2 * *c.window_size) : seq_length;
  Flops flops;
  flops.matmul_per_token = 6.0 * static_cast<double>(count_parameters(model).matmul);
  flops.attention_per_token = 6.0 * static_cast<double>(c.num_hidden_layers) * static_cast<double>(span) *
                              static_cast<double>(c.heads_width());
  return flops;
}

std::string flops_formula() { return "6 N (parameters in products) + 6 L T H D (causal attention, H heads of D)"; }

MemoryShape memory_shape(const RunConfig& config) {
  MemoryShape shape;
  shape.batch_size = config.training.batch_size;
  shape.seq_length = config.data.seq_length;
  shape.recompute_layers = config.training.gradient_checkpointing;
  shape.bfloat16 = config.training.dtype != "float32";
  shape.masters = config.training.dtype != pure_bfloat16;
  return shape;
}

MemoryEstimate training_memory(const Model& model, const MemoryShape& shape) {
  const ModelConfig& c = model.config();
  const double N = static_cast<double>(count_parameters(model).total);
  const double bytes = shape.bfloat16 ? 2 : 4;
  const double tokens = static_cast<double>(shape.batch_size) * static_cast<double>(shape.seq_length);
  const double C = static_cast<double>(c.hidden_size), L = static_cast<double>(c.num_hidden_layers);
  const double Cq = static_cast<double>(c.heads_width());
  const double Ckv = static_cast<double>(c.head_dim() * c.kv_heads()), V = static_cast<double>(c.vocab_size);

  MemoryEstimate memory;
  const double stored = shape.masters ? 4 : 2;
  memory.parameters = stored * N;
  memory.gradients = stored * N;
  memory.optimizer = 2 * stored * N;
  memory.compute_copies = shape.bfloat16 && shape.masters ? 2 * N : 0;
  double layers = 0, widest = 0, within = 0;  // within: gradients inside the layer whose backward runs
  for (std::int64_t layer = 0; layer < c.num_hidden_layers; ++layer) {
    const double f = static_cast<double>(c.ffn_size(layer));
    // Two sums of the stream, q, k and v, attention's output, gate and up; what is made again is not kept
    // (DifferentiableOp::remakes).
    double widths = 2 * C + 2 * Cq + 2 * Ckv + 2 * f + extra_widths(c) * C;
    if (c.value_path_active(layer) && c.value_path != "satformer") widths += Ckv;
    layers += widths;
    widest = std::max(widest, widths);
    within = std::max(within, 4 * f + 4 * C);
  }
  if (shape.recompute_layers) layers = crossing_widths(c) * C * L + widest;
  if (c.residual_routing == "mudd" || c.residual_routing == "dense") layers += C * L;  // every layer's output is kept
  layers += within;
  const double head = 3 * C * tokens * bytes + 4.0 * std::min(tokens, 512.0) * V * 2 + 4 * V * C;
  memory.activations = layers * tokens * bytes + head;
  return memory;
}

double checkpoint_bytes(const Model& model, bool masters) {
  return (masters ? 12.0 : 6.0) * static_cast<double>(count_parameters(model).total);
}

double product_flops(at::Device device, at::ScalarType dtype, std::int64_t largest, double least_seconds) {
  const at::NoGradGuard no_grad;
  using Clock = std::chrono::steady_clock;
  const auto seconds = [](const at::Tensor& a) {
    const auto start = Clock::now();
    at::mm(a, a).select(0, 0).select(0, 0).item();  // reading an element waits for the device
    return std::chrono::duration<double>(Clock::now() - start).count();
  };
  // A type that the processor has no instructions for is thousands of times slower: the size shows it.
  for (std::int64_t n = std::min<std::int64_t>(256, largest);; n = std::min(2 * n, largest)) {
    const at::Tensor a = at::ones({n, n}, at::TensorOptions().device(device).dtype(dtype));
    double best = seconds(a);
    if (n < largest && best < 0.05) continue;
    for (double total = best; total < least_seconds;) {
      const double again = seconds(a);
      total += again;
      best = std::min(best, again);
    }
    const auto size = static_cast<double>(n);
    return 2.0 * size * size * size / best;
  }
}

double measure_peak_flops(at::Device device, at::ScalarType dtype) {
  if (!device.is_cpu()) return product_flops(device, dtype, 8192, 0.2);
  const double fp32 = product_flops(device, at::kFloat, 1024, 0.15);
  return dtype == at::kFloat ? fp32 : std::max(fp32, product_flops(device, dtype, 1024, 0.15));
}

}  // namespace satformer
