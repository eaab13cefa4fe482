#include "kernels/gpu/op.h"
#include "kernels/swiglu/cuda.h"
#include "kernels/swiglu/ops.h"
#include "kernels/swiglu/swiglu.h"

namespace satformer::gpu {
namespace {

class GpuSwiglu : public DifferentiableOp {
 protected:
  at::Tensor product(const at::Tensor& gate, const at::Tensor& up) const {
    const Call call(gate);
    const at::Tensor y = at::empty_like(gate);
    with_element(gate.scalar_type(), [&](auto element) {
      using T = decltype(element);
      gpu::swiglu(call.where(), Swiglu<T>{in<T>(gate), in<T>(up), out<T>(y), gate.numel(),
                                          fits_packs(gate.numel(), {gate, up, y})});
    });
    return y;
  }

  ProductGrads product_grads(const at::Tensor& gate, const at::Tensor& up, const at::Tensor& dy,
                             bool recompute) const {
    const Call call(gate);
    const ProductGrads grads{at::empty_like(gate), at::empty_like(up)};
    with_element(gate.scalar_type(), [&](auto element) {
      using T = decltype(element);
      swiglu_grad(call.where(),
                  SwigluGrad<T>{.gate = in<T>(gate),
                                .up = in<T>(up),
                                .dy = in<T>(dy),
                                .dgate = out<T>(grads.gate),
                                .dup = out<T>(grads.up),
                                .product = recompute ? out<T>(dy) : nullptr,
                                .count = gate.numel(),
                                .packs = fits_packs(gate.numel(), {gate, up, dy, grads.gate, grads.up})});
    });
    return grads;
  }
};

}  // namespace

at::Tensor swiglu(const at::Tensor& gate, const at::Tensor& up) { return apply_swiglu<GpuSwiglu>(gate, up); }

at::Tensor gated_mlp(const at::Tensor& x, const at::Tensor& w_gate, const at::Tensor& w_up,
                     const at::Tensor& w_down) {
  return apply_gated_mlp<GpuSwiglu>(x, w_gate, w_up, w_down);
}

}  // namespace satformer::gpu
