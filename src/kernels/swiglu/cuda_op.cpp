#include <ATen/ops/linear.h>
#include <ATen/ops/mm.h>

#include "kernels/gpu/op.h"
#include "kernels/swiglu/cuda.h"
#include "kernels/swiglu/swiglu.h"

namespace satformer::gpu {
namespace {

at::Tensor product(const at::Tensor& gate, const at::Tensor& up) {
  const Call call(gate);
  const at::Tensor y = at::empty_like(gate);
  with_element(gate.scalar_type(), [&](auto element) {
    using T = decltype(element);
    swiglu(call.where(),
           Swiglu<T>{in<T>(gate), in<T>(up), out<T>(y), gate.numel(), fits_packs(gate.numel(), {gate, up, y})});
  });
  return y;
}

struct ProductGrads {
  at::Tensor gate, up;
};

// With `recompute`, `dy` is overwritten by the product.
ProductGrads product_grads(const at::Tensor& gate, const at::Tensor& up, const at::Tensor& dy, bool recompute) {
  const Call call(gate);
  const ProductGrads grads{at::empty_like(gate), at::empty_like(up)};
  with_element(gate.scalar_type(), [&](auto element) {
    using T = decltype(element);
    swiglu_grad(call.where(), SwigluGrad<T>{.gate = in<T>(gate),
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

class SwigluOp : public DifferentiableOp {
 public:
  TensorList forward(const TensorList& inputs, TensorList& saved) override {
    saved = inputs;
    return {product(inputs[0], inputs[1])};
  }
  TensorList backward(const TensorList& grads, const TensorList& saved, const std::vector<bool>&) override {
    if (!grads[0].defined()) return TensorList(2);
    const ProductGrads result = product_grads(saved[0], saved[1], dense(grads[0], saved[0].scalar_type()), false);
    return {result.gate, result.up};
  }
};

// Inputs: x [N, C], w_gate, w_up [F, C], w_down [C, F].
class GatedMlpOp : public DifferentiableOp {
 public:
  TensorList forward(const TensorList& inputs, TensorList& saved) override {
    const at::Tensor gate = at::linear(inputs[0], inputs[1]), up = at::linear(inputs[0], inputs[2]);
    saved = inputs;
    saved.push_back(gate);
    saved.push_back(up);
    return {at::linear(product(gate, up), inputs[3])};
  }
  TensorList backward(const TensorList& grads, const TensorList& saved, const std::vector<bool>& needs) override {
    TensorList result(4);
    if (!grads[0].defined()) return result;
    const at::Tensor &x = saved[0], &w_gate = saved[1], &w_up = saved[2], &w_down = saved[3], &gate = saved[4],
                     &up = saved[5];
    const at::Tensor dy = dense(grads[0], x.scalar_type());
    const at::Tensor dproduct = at::mm(dy, w_down);
    const ProductGrads d = product_grads(gate, up, dproduct, true);
    if (needs[3]) result[3] = at::mm(dy.t(), dproduct);  // by now the product itself
    if (needs[0]) result[0] = at::mm(d.gate, w_gate).addmm_(d.up, w_up);
    if (needs[1]) result[1] = at::mm(d.gate.t(), x);
    if (needs[2]) result[2] = at::mm(d.up.t(), x);
    return result;
  }
};

}  // namespace

at::Tensor swiglu(const at::Tensor& gate, const at::Tensor& up) {
  return apply_op(std::make_shared<SwigluOp>(), {gate.contiguous(), up.contiguous()})[0];
}

at::Tensor gated_mlp(const at::Tensor& x, const at::Tensor& w_gate, const at::Tensor& w_up,
                     const at::Tensor& w_down) {
  const at::Tensor flat = x.reshape({-1, x.size(-1)});
  const at::Tensor y = apply_op(std::make_shared<GatedMlpOp>(), {flat, w_gate, w_up, w_down})[0];
  std::vector<std::int64_t> shape = x.sizes().vec();
  shape.back() = w_down.size(0);
  return y.view(shape);
}

}  // namespace satformer::gpu
