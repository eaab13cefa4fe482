// Running means of SATFormer's gates, for interventions that replace gates by them.
#pragma once

#include <map>
#include <utility>
#include <vector>

#include "nn/observer.h"

namespace satformer {

class GateMeans : public LayerObserver {
 public:
  // With `kinds` > 0 means of each kind of token are kept too: set_kinds() is called before each pass.
  explicit GateMeans(std::int64_t kinds = 0) : kinds_(kinds) {}
  void set_kinds(const at::Tensor& kinds_BT) { kinds_BT_ = kinds_BT; }  // uint8, below `kinds`
  at::Tensor source_gate(std::int64_t layer, std::int64_t source, const at::Tensor& alpha_BTH) override;

  // fp64 on the CPU. Error(internal) if that layer's gates on `source` were never seen.
  at::Tensor of_heads(std::int64_t layer, std::int64_t source) const;  // [H]
  at::Tensor of_kinds(std::int64_t layer, std::int64_t source) const;  // [K, H]; a kind never seen: as of_heads
  double overall() const;                                              // over all layers, sources, heads and tokens
  bool has_kinds() const { return kinds_ > 0; }

 private:
  struct Sums {
    at::Tensor sum_KH, count_K;
  };
  const Sums& sums(std::int64_t layer, std::int64_t source) const;

  std::int64_t kinds_;
  at::Tensor kinds_BT_;
  std::map<std::pair<std::int64_t, std::int64_t>, Sums> sums_;  // by layer and source
};

}  // namespace satformer
