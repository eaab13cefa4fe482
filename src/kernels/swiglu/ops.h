// SwiGLU and the gated feed-forward as differentiable operations, whatever computes the products.
#pragma once

#include <ATen/ops/linear.h>
#include <ATen/ops/mm.h>

#include <memory>
#include <vector>

#include "kernels/autograd.h"
#include "kernels/op_tensors.h"

namespace satformer {

struct ProductGrads {
  at::Tensor gate, up;
};

// `Products` is a DifferentiableOp with
//   at::Tensor product(gate, up) const                              silu(gate) * up
//   ProductGrads product_grads(gate, up, dy, bool recompute) const  `recompute`: dy is overwritten by the product
template <class Products>
class SwigluOp : public Products {
 public:
  TensorList forward(const TensorList& inputs, TensorList& saved) override {
    saved = inputs;
    return {this->product(inputs[0], inputs[1])};
  }
  TensorList backward(const TensorList& grads, const TensorList& saved, const std::vector<bool>&) override {
    if (!grads[0].defined()) return TensorList(2);
    const ProductGrads result =
        this->product_grads(saved[0], saved[1], dense(grads[0], saved[0].scalar_type()), false);
    return {result.gate, result.up};
  }
};

// Inputs: x [..., C], w_gate, w_up [F, C], w_down [C, F].
template <class Products>
class GatedMlpOp : public Products {
 public:
  TensorList forward(const TensorList& inputs, TensorList& saved) override {
    const at::Tensor gate = at::linear(inputs[0], inputs[1]), up = at::linear(inputs[0], inputs[2]);
    saved = inputs;
    saved.push_back(gate);
    saved.push_back(up);
    return {at::linear(this->product(gate, up), inputs[3])};
  }
  TensorList backward(const TensorList& grads, const TensorList& saved, const std::vector<bool>& needs) override {
    TensorList result(4);
    if (!grads[0].defined()) return result;
    const auto rows = [](const at::Tensor& t) { return t.reshape({-1, t.size(-1)}); };
    const at::Tensor &w_gate = saved[1], &w_up = saved[2], &w_down = saved[3];
    const at::Tensor x = rows(saved[0]), gate = rows(saved[4]), up = rows(saved[5]);
    const at::Tensor dy = rows(dense(grads[0], x.scalar_type()));
    const at::Tensor dproduct = at::mm(dy, w_down);
    const ProductGrads d = this->product_grads(gate, up, dproduct, true);
    if (needs[3]) result[3] = at::mm(dy.t(), dproduct);  // by now the product itself
    if (needs[0]) result[0] = at::mm(d.gate, w_gate).addmm_(d.up, w_up).view(saved[0].sizes());
    if (needs[1]) result[1] = at::mm(d.gate.t(), x);
    if (needs[2]) result[2] = at::mm(d.up.t(), x);
    return result;
  }
};

template <class Products>
at::Tensor apply_swiglu(const at::Tensor& gate, const at::Tensor& up) {
  return apply_op(std::make_shared<SwigluOp<Products>>(), {gate.contiguous(), up.contiguous()})[0];
}

template <class Products>
at::Tensor apply_gated_mlp(const at::Tensor& x, const at::Tensor& w_gate, const at::Tensor& w_up,
                           const at::Tensor& w_down) {
  return apply_op(std::make_shared<GatedMlpOp<Products>>(), {x, w_gate, w_up, w_down})[0];
}

}  // namespace satformer
