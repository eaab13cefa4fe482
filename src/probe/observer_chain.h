// Several observers of one pass.
#pragma once

#include <utility>
#include <vector>

#include "nn/observer.h"

namespace satformer {

// Gates and values go through the observers in order: each sees what those before it replaced.
class ObserverChain : public LayerObserver {
 public:
  // They outlive the chain; null ones are left out.
  explicit ObserverChain(const std::vector<LayerObserver*>& observers) {
    for (LayerObserver* observer : observers) {
      if (observer) observers_.push_back(observer);
    }
  }

  at::Tensor source_gate(std::int64_t layer, std::int64_t source, const at::Tensor& alpha_BTH) override {
    at::Tensor alpha = alpha_BTH;
    for (LayerObserver* observer : observers_) alpha = observer->source_gate(layer, source, alpha);
    return alpha;
  }
  at::Tensor values(std::int64_t layer, const at::Tensor& own_BTHD, const at::Tensor& mixed_BTHD) override {
    at::Tensor mixed = mixed_BTHD;
    for (LayerObserver* observer : observers_) mixed = observer->values(layer, own_BTHD, mixed);
    return mixed;
  }
  void attention(std::int64_t layer, const AttentionView& view) override {
    for (LayerObserver* observer : observers_) observer->attention(layer, view);
  }
  void block_output(std::int64_t layer, const at::Tensor& x_BTC) override {
    for (LayerObserver* observer : observers_) observer->block_output(layer, x_BTC);
  }

 private:
  std::vector<LayerObserver*> observers_;
};

}  // namespace satformer
