#include "train/frozen.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/ne.h>

namespace satformer {

FrozenParameters::FrozenParameters(const ParameterStore& parameters) : parameters_(parameters) {
  const at::NoGradGuard no_grad;
  for (const Parameter& p : parameters_.list()) copies_.push_back(p.value.detach().clone());
  frozen_.assign(copies_.size(), false);
}

FrozenParameters::Look FrozenParameters::look() {
  const at::NoGradGuard no_grad;
  Look result;
  double still = 0, all = 0;
  for (std::size_t i = 0; i < copies_.size(); ++i) {
    const Parameter& p = parameters_.list()[i];
    const at::Tensor& grad = p.value.grad();
    if (!grad.defined() || grad.ne(0).any().item<bool>() == false) continue;
    const auto elements = static_cast<double>(p.value.numel());
    const auto changed = static_cast<double>(at::ne(p.value.detach(), copies_[i]).sum().item<std::int64_t>());
    all += elements;
    still += elements - changed;
    const bool frozen = changed == 0;
    if (frozen) {
      result.names.push_back(p.name);
      if (!frozen_[i]) result.fresh.push_back(p.name);
    } else {
      copies_[i].copy_(p.value.detach());
    }
    frozen_[i] = frozen;
  }
  result.still_share = all > 0 ? still / all : 0;
  return result;
}

}  // namespace satformer
