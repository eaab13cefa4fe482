// Parameters that the optimizer no longer changes. In bf16 without masters an update below half a step of the format
// is lost: a scalar at 11 or a norm weight at 1.0 stands still at usual rates, although its gradient is not zero.
#pragma once

#include "kernels/tensor.h"

#include <string>
#include <vector>

#include "nn/parameters.h"

namespace satformer {

class FrozenParameters {
 public:
  // Keeps a copy of every parameter, in its type.
  explicit FrozenParameters(const ParameterStore& parameters);

  struct Look {
    std::vector<std::string> names;  // no element changed since the last look, although gradients were not zero
    std::vector<std::string> fresh;  // of these, those that were not frozen at the last look
    double still_share = 0;          // share of all elements, of parameters with gradients, that did not change
  };
  // Compares with the copies and renews them. Call after an optimizer step, while gradients are there.
  Look look();

 private:
  const ParameterStore& parameters_;
  std::vector<at::Tensor> copies_;
  std::vector<bool> frozen_;
};

}  // namespace satformer
