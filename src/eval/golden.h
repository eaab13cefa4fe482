// Reference cases: NAME.json (arch, config_overrides, steps, learning_rate) and NAME.safetensors beside it with
// param.*, input_ids [B,T], labels [B,T] (-100 ignored; shifted by one inside), optional attention_mask, logits,
// loss, grad.*, and for steps > 0 traj.loss and traj.grad_norm: AdamW steps (betas 0.9/0.95, weight decay 0.1 on
// everything, gradients clipped to norm 1) on the same batch.
#pragma once

#include <string>
#include <vector>

#include "kernels/backend.h"
#include "kernels/tensor.h"

namespace satformer {

struct GoldenTolerance {
  double values = 2e-5;  // logits, loss, gradients, cached decoding
  double trajectory_loss = 2e-4;
  double trajectory_norm = 2e-3;
};

// Largest absolute differences; NaN where a value was not finite.
struct GoldenResult {
  std::string name, architecture;
  double logits = 0, loss = 0, gradient = 0, decode = 0;
  std::string worst_gradient;
  std::int64_t steps = 0;
  double trajectory_loss = 0, trajectory_norm = 0;
  bool cache_bytes_equal = true;  // exactly a Transformer's cache

  bool passes(const GoldenTolerance& tolerance) const;
};

// `json_path`: NAME.json. Malformed cases are Error(data) or Error(config) naming the file and key.
GoldenResult run_golden_case(const std::string& json_path, Backend backend, at::Device device);

// JSON files of golden cases in files and folders (not recursive), sorted by name.
std::vector<std::string> find_golden_cases(const std::vector<std::string>& paths);

}  // namespace satformer
