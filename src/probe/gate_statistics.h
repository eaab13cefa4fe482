// Running statistics of SATFormer's gates, per layer, source layer and KV head.
#pragma once

#include <map>
#include <utility>
#include <vector>

#include "nn/model_config.h"
#include "nn/observer.h"

namespace satformer {

struct HeadGates {
  double mean = 0;        // of the gate values
  double zero_share = 0;  // share of exact zeros
  double max = 0;
  double std_dev = 0;
  double saturated_share = 0;  // share of saturated gates
};

// From which size on a gate counts as saturated: 0.99 of the bound of its function (sigmoid and tanh 1, the softmaxes
// the number of KV heads); 1 for relu and identity, which have none: the early value enters at full strength or more.
double saturation_level(const ModelConfig& config);

class GateStatistics : public LayerObserver {
 public:
  // Shares of saturated gates count sizes |g| >= saturation.
  explicit GateStatistics(double saturation = 1) : saturation_(saturation) {}
  at::Tensor source_gate(std::int64_t layer, std::int64_t source, const at::Tensor& alpha_BTH) override;

  std::vector<std::int64_t> layers() const;                                     // those that have gates, in order
  std::vector<std::int64_t> sources(std::int64_t layer) const;                  // the layers that its gates are on
  std::vector<HeadGates> heads(std::int64_t layer, std::int64_t source) const;  // one per KV head
  HeadGates layer(std::int64_t layer, std::int64_t source) const;               // over all heads
  // Of the only or first source.
  std::vector<HeadGates> heads(std::int64_t layer) const { return heads(layer, sources(layer).front()); }
  HeadGates layer(std::int64_t l) const { return layer(l, sources(l).front()); }
  std::int64_t tokens() const;  // tokens seen

 private:
  struct Sums {
    at::Tensor sum_H, square_H, zeros_H, saturated_H, max_H;  // fp64
    std::int64_t tokens = 0;
  };
  double saturation_;
  std::map<std::pair<std::int64_t, std::int64_t>, Sums> sums_;  // by layer and source
};

}  // namespace satformer
