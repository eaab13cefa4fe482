// Running statistics of SATFormer's gates, per layer and KV head.
#pragma once

#include <map>
#include <vector>

#include "nn/observer.h"

namespace satformer {

struct HeadGates {
  double mean = 0;        // of the gate values
  double zero_share = 0;  // share of exact zeros
  double max = 0;
  double std_dev = 0;
};

class GateStatistics : public LayerObserver {
 public:
  at::Tensor gate(std::int64_t layer, const at::Tensor& alpha_BTH) override;

  std::vector<std::int64_t> layers() const;                // those that have gates, in order
  std::vector<HeadGates> heads(std::int64_t layer) const;  // one per KV head
  HeadGates layer(std::int64_t layer) const;               // over all heads
  std::int64_t tokens() const;                             // tokens seen

 private:
  struct Sums {
    at::Tensor sum_H, square_H, zeros_H, max_H;  // fp64
    std::int64_t tokens = 0;
  };
  std::map<std::int64_t, Sums> sums_;
};

}  // namespace satformer
