#include "kernels/gpu/op.h"
#include "kernels/value_gate/cuda.h"
#include "kernels/value_gate/math.h"
#include "kernels/value_gate/value_gate.h"

namespace satformer::gpu {
namespace {

static_assert(static_cast<int>(Gate::relu) == rows::gate_relu &&
              static_cast<int>(Gate::softmax_sigmoid) == rows::gate_softmax_sigmoid);

template <class T>
ValueGate<T> arguments(const at::Tensor& v1, const at::Tensor& logits_fp32, Gate gate) {
  ValueGate<T> args{};
  args.v1 = in<T>(v1);
  args.logits = in<float>(logits_fp32);
  args.tokens = v1.size(0) * v1.size(1);
  args.heads = static_cast<int>(v1.size(2));
  args.head_dim = static_cast<int>(v1.size(3));
  args.gate = static_cast<int>(gate);
  return args;
}

class ValueGateOp : public DifferentiableOp {
 public:
  explicit ValueGateOp(Gate gate) : gate_(gate) {}
  TensorList forward(const TensorList& inputs, TensorList& saved) override {
    const at::Tensor &v = inputs[0], &v1 = inputs[1];
    saved = {v1, inputs[2]};
    const Call call(v);
    const at::Tensor logits = dense_fp32(inputs[2]), mixed = at::empty_like(v);
    with_element(v.scalar_type(), [&](auto element) {
      using T = decltype(element);
      auto args = arguments<T>(v1, logits, gate_);
      args.v = in<T>(v);
      args.out = out<T>(mixed);
      args.packs = fits_packs(args.head_dim, {v, v1, mixed}, 2);
      value_gate(call.where(), args);
    });
    return {mixed};
  }
  TensorList backward(const TensorList& grads, const TensorList& saved, const std::vector<bool>& needs) override {
    TensorList result(3);
    if (!grads[0].defined()) return result;
    result[0] = grads[0];
    if (!needs[1] && !needs[2]) return result;
    const Call call(saved[0]);
    const at::Tensor &v1 = saved[0], logits = dense_fp32(saved[1]), dy = dense(grads[0], v1.scalar_type());
    if (needs[1]) result[1] = at::empty_like(v1);
    at::Tensor dlogits;
    if (needs[2]) dlogits = at::empty_like(logits);
    with_element(v1.scalar_type(), [&](auto element) {
      using T = decltype(element);
      auto args = arguments<T>(v1, logits, gate_);
      args.dy = in<T>(dy);
      args.dv1 = out<T>(result[1]);
      args.dlogits = out<float>(dlogits);
      args.packs = fits_packs(args.head_dim, {dy, v1, result[1]}, 2);
      value_gate_grad(call.where(), args);
    });
    if (needs[2]) result[2] = dlogits.to(saved[1].scalar_type());
    return result;
  }

 private:
  Gate gate_;
};

// Inputs: v, v1, lambda1, lambda2.
class StaticMixOp : public DifferentiableOp {
 public:
  TensorList forward(const TensorList& inputs, TensorList& saved) override {
    saved = inputs;
    const Call call(inputs[0]);
    const at::Tensor mixed = at::empty_like(inputs[0]), l1 = dense_fp32(inputs[2]), l2 = dense_fp32(inputs[3]);
    with_element(mixed.scalar_type(), [&](auto element) {
      using T = decltype(element);
      auto args = arguments<T>(inputs, l1, l2);
      args.out = out<T>(mixed);
      args.packs = fits_packs(args.count, {inputs[0], inputs[1], mixed});
      static_mix(call.where(), args);
    });
    return {mixed};
  }
  TensorList backward(const TensorList& grads, const TensorList& saved, const std::vector<bool>& needs) override {
    TensorList result(4);
    if (!grads[0].defined()) return result;
    const Call call(saved[0]);
    const at::Tensor dy = dense(grads[0], saved[0].scalar_type()), l1 = dense_fp32(saved[2]),
                     l2 = dense_fp32(saved[3]);
    if (needs[0]) result[0] = at::empty_like(dy);
    if (needs[1]) result[1] = at::empty_like(dy);
    at::Tensor partial;
    if (needs[2] || needs[3]) partial = partial_sums(dy, partial_blocks, 2);
    with_element(dy.scalar_type(), [&](auto element) {
      using T = decltype(element);
      auto args = arguments<T>(saved, l1, l2);
      args.dy = in<T>(dy);
      args.dv = out<T>(result[0]);
      args.dv1 = out<T>(result[1]);
      args.dots = out<float>(partial);
      args.packs = fits_packs(args.count, {saved[0], saved[1], dy, result[0], result[1]});
      static_mix_grad(call.where(), args);
    });
    for (std::size_t i = 2; i < 4; ++i) {
      if (needs[i]) result[i] = total_like(partial.select(1, static_cast<std::int64_t>(i) - 2), saved[i]);
    }
    return result;
  }

 private:
  template <class T>
  static StaticMix<T> arguments(const TensorList& inputs, const at::Tensor& l1, const at::Tensor& l2) {
    StaticMix<T> args{};
    args.v = in<T>(inputs[0]);
    args.v1 = in<T>(inputs[1]);
    args.lambda1 = in<float>(l1);
    args.lambda2 = in<float>(l2);
    args.count = inputs[0].numel();
    return args;
  }
};

}  // namespace

at::Tensor value_gate(const at::Tensor& v_BTHD, const at::Tensor& v1_BTHD, const at::Tensor& logits_BTH, Gate gate) {
  return apply_op(std::make_shared<ValueGateOp>(gate), {v_BTHD.contiguous(), v1_BTHD.contiguous(), logits_BTH})[0];
}

at::Tensor static_value_mix(const at::Tensor& v_BTHD, const at::Tensor& v1_BTHD, const at::Tensor& lambda1,
                            const at::Tensor& lambda2) {
  return apply_op(std::make_shared<StaticMixOp>(), {v_BTHD.contiguous(), v1_BTHD.contiguous(), lambda1, lambda2})[0];
}

}  // namespace satformer::gpu
