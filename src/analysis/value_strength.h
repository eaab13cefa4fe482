// How much of a layer's values, and of its attention sublayer's output, comes from early values.
#pragma once

#include <map>
#include <vector>

#include "nn/model.h"

namespace satformer {

// Early part of the values: sum_s g_s V_s with SATFormer values, lambda1 V_1 with ResFormer's; own part: V, lambda2
// V.
class ValueStrength : public LayerObserver {
 public:
  explicit ValueStrength(const Model& model);

  at::Tensor source_gate(std::int64_t layer, std::int64_t source, const at::Tensor& alpha_BTH) override;
  at::Tensor values(std::int64_t layer, const at::Tensor& own_BTHD, const at::Tensor& mixed_BTHD) override;
  void attention(std::int64_t layer, const AttentionView& view) override;

  struct Layer {
    std::vector<double> head_share;  // mean over tokens of |early| / (|early| + |own|), for each KV head
    double value_share = 0;          // their mean
    double output_share = 0;  // mean over tokens of |c| / (|c| + |o - c|), c: what the early part gives to output o
    double output_projection = 0;  // sum <c, o> / sum <o, o>: with the own part's it sums to 1
  };
  std::map<std::int64_t, Layer> layers() const;  // those that use early values

 private:
  struct Sums {
    at::Tensor head_share_H;  // fp64
    double output_share = 0, along = 0, square = 0, tokens = 0;
  };
  bool at_output_ = false, resformer_ = false;
  std::vector<double> lambda1_, lambda2_;       // of each layer; ResFormer
  std::map<std::int64_t, at::Tensor> sources_;  // values of the source layers, of the pass
  std::vector<std::int64_t> source_layers_;
  std::vector<std::pair<std::int64_t, at::Tensor>> gates_;  // of the layer: source, gates
  at::Tensor own_;
  std::map<std::int64_t, Sums> sums_;
};

}  // namespace satformer
