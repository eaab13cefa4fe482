#include <ATen/ops/linear.h>
#include <ATen/ops/silu.h>
#include "kernels/tensor.h"

#include "kernels/swiglu/swiglu.h"

namespace satformer::reference {

at::Tensor swiglu(const at::Tensor& gate, const at::Tensor& up) {
  return (at::silu(gate.to(at::kFloat)) * up.to(at::kFloat)).to(gate.scalar_type());
}

at::Tensor gated_mlp(const at::Tensor& x, const at::Tensor& w_gate, const at::Tensor& w_up,
                     const at::Tensor& w_down) {
  return at::linear(swiglu(at::linear(x, w_gate), at::linear(x, w_up)), w_down);
}

}  // namespace satformer::reference
