// Operations with a hand-written gradient, without the cost of torch's custom_function.h in every file.
#pragma once

#include "kernels/tensor.h"

#include <functional>
#include <memory>
#include <vector>

namespace satformer {

using TensorList = std::vector<at::Tensor>;

// One call of a differentiable operation. An object lives from forward to backward; both run without autograd.
// Undefined tensors are allowed among inputs, saved tensors and gradients.
class DifferentiableOp {
 public:
  virtual ~DifferentiableOp() = default;
  // Returns the outputs. Tensors pushed to `saved` (inputs, outputs or intermediates) reach backward, safely against
  // in-place changes.
  virtual TensorList forward(const TensorList& inputs, TensorList& saved) = 0;
  // `grads`: one per output (undefined = zero). `needs[i]`: whether input i wants a gradient. Returns one per input.
  virtual TensorList backward(const TensorList& grads, const TensorList& saved, const std::vector<bool>& needs) = 0;
  // How many operations make output i again from what is saved, if it is cheap; 0: it is to be kept. No operation of
  // this kind keeps a remade tensor for its own backward, where remake() gives it, up to rounding as forward did.
  virtual int remakes(std::size_t /*output*/) const { return 0; }
  virtual at::Tensor remake(std::size_t output, const TensorList& saved);
};

TensorList apply_op(std::shared_ptr<DifferentiableOp> op, const TensorList& inputs);
// DifferentiableOp::remakes of the operation whose output x is; 0 for all others.
int remade_by(const at::Tensor& x);

// Activation recomputation: runs `body` without recording, and again with recording in backward (non-reentrant in
// effect: gradients reach `inputs` and every parameter that `body` captures). The inputs' gradients equal those of a
// plain call.
TensorList recompute(std::function<TensorList(const TensorList&)> body, const TensorList& inputs);

// Whether autograd records, or this is the first pass of recompute(), which backward repeats while it records. Paths
// that round differently are for other passes.
bool has_backward();

}  // namespace satformer
