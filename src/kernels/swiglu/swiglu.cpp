#include "kernels/swiglu/swiglu.h"

namespace satformer {

at::Tensor swiglu(const at::Tensor& gate, const at::Tensor& up) { return reference::swiglu(gate, up); }

at::Tensor gated_mlp(const at::Tensor& x, const at::Tensor& w_gate, const at::Tensor& w_up,
                     const at::Tensor& w_down) {
  return reference::gated_mlp(x, w_gate, w_up, w_down);
}

}  // namespace satformer
