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
  if (c.residual_routing == "dense") return 1;  // the averaged state
  if (c.residual_routing == "mudd")
    return 4 + 3 + (c.use_pre_post_da_norm ? 4 : 0);  // streams, their norms, post norms
  if (c.residual_routing == "hyper") {
    // Of each sublayer, the streams, what it read of them and what it gave, in place of a plain decoder's one stream.
    return 2 * (static_cast<double>(c.expansion_rate) + 2) - 2;
  }
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
  double layers = 0, widest = 0;
  for (std::int64_t layer = 0; layer < c.num_hidden_layers; ++layer) {
    const double f = static_cast<double>(c.ffn_size(layer));
    // Input, its norm, q and k before and after norm and rope, v and its mix, attention's output, the sum, its norm;
    // gate, up and their product.
    double widths = 4 * C + Cq + 2 * Cq + 2 * Ckv + Ckv + 3 * f + extra_widths(c) * C;
    if (c.value_path_active(layer)) widths += Ckv;
    layers += widths;
    widest = std::max(widest, widths);
  }
  if (shape.recompute_layers) layers = crossing_widths(c) * C * L + widest;
  if (c.residual_routing == "mudd" || c.residual_routing == "dense") layers += C * L;  // every layer's output is kept
  const double head = 3 * C * tokens * bytes + 4.0 * std::min(tokens, 512.0) * V * 2 + 4 * V * C;
  memory.activations = layers * tokens * bytes + head;
  return memory;
}

double checkpoint_bytes(const Model& model, bool masters) {
  return (masters ? 12.0 : 6.0) * static_cast<double>(count_parameters(model).total);
}

double measure_peak_flops(at::Device device, at::ScalarType dtype) {
  const at::NoGradGuard no_grad;
  const bool cpu = device.is_cpu();
  const std::int64_t n = cpu ? 1024 : 8192;
  const at::Tensor a = at::ones({n, n}, at::TensorOptions().device(device).dtype(cpu ? at::kFloat : dtype));
  using Clock = std::chrono::steady_clock;
  const auto run = [&] {
    const auto start = Clock::now();
    at::mm(a, a).select(0, 0).select(0, 0).item();  // reading an element waits for the device
    return std::chrono::duration<double>(Clock::now() - start).count();
  };
  double total = run(), best = total;
  for (int i = 0; i < 8 && total < 0.2; ++i) {
    const double seconds = run();
    total += seconds;
    best = std::min(best, seconds);
  }
  return 2.0 * static_cast<double>(n) * static_cast<double>(n) * static_cast<double>(n) / best;
}

}  // namespace satformer
