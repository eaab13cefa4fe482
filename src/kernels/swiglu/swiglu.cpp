#include "kernels/swiglu/swiglu.h"

#include "base/error.h"
#include "kernels/backend.h"

namespace satformer {

at::Tensor swiglu(const at::Tensor& gate, const at::Tensor& up) {
  if (gate.sizes() != up.sizes()) fail(ExitCode::internal, "swiglu: gate and up differ in shape");
  const bool alike = gate.scalar_type() == up.scalar_type();
  return choose(gate, {alike, alike}, cpu::swiglu, gpu::swiglu, reference::swiglu)(gate, up);
}

at::Tensor gated_mlp(const at::Tensor& x, const at::Tensor& w_gate, const at::Tensor& w_up,
                     const at::Tensor& w_down) {
  const bool alike = x.scalar_type() == w_gate.scalar_type() && x.scalar_type() == w_up.scalar_type() &&
                     x.scalar_type() == w_down.scalar_type();
  return choose(x, {alike, alike}, cpu::gated_mlp, gpu::gated_mlp, reference::gated_mlp)(x, w_gate, w_up, w_down);
}

}  // namespace satformer
