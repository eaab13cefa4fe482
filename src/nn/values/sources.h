// The pool of earlier values that a value path reads, and how values are placed on attention's output.
#pragma once

#include "nn/value_path.h"

namespace satformer {

// Keeps the value projections of the source layers (after the bias, before any mixing) in ValueState::carried, in the
// order of ModelConfig::value_source_layers().
class ValueSources {
 public:
  explicit ValueSources(const ModelConfig& config) : layers_(config.value_source_layers()) {}
  void offer(std::int64_t layer, const at::Tensor& v_BTHD, ValueState& state) const;
  const std::vector<std::int64_t>& layers() const { return layers_; }

 private:
  std::vector<std::int64_t> layers_;
};

// out [B, T, Hq, D] + values [B, T, Hkv, D], each KV head's repeated over its group of query heads.
at::Tensor add_over_groups(const at::Tensor& out_BTHD, const at::Tensor& values_BTHD);

}  // namespace satformer
