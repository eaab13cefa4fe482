#include <ATen/ops/scalar_tensor.h>

#include <vector>

#include "kernels/cpu_rows.h"
#include "kernels/value_gate/value_gate.h"

namespace satformer::cpu {
namespace {

static_assert(static_cast<int>(Gate::relu) == rows::gate_relu &&
              static_cast<int>(Gate::softmax_sigmoid) == rows::gate_softmax_sigmoid);

template <class T>
rows::ValueGate<T> arguments(const at::Tensor& v1, const at::Tensor& logits_fp32, Gate gate) {
  return {.v = nullptr,
          .v1 = in<T>(v1),
          .logits = in<float>(logits_fp32),
          .out = nullptr,
          .dy = nullptr,
          .dv1 = nullptr,
          .dlogits = nullptr,
          .alpha = nullptr,
          .heads = v1.size(2),
          .head_dim = v1.size(3),
          .gate = static_cast<int>(gate)};
}

// Runs a kernel over all tokens, each thread with its own scratch.
template <class T>
void over_tokens(const rows::RowKernel<rows::ValueGate<T>>& kernel, const rows::ValueGate<T>& args,
                 std::int64_t tokens) {
  parallel_ranges(tokens, args.heads * args.head_dim, [&](std::int64_t begin, std::int64_t end) {
    std::vector<float> alpha(static_cast<std::size_t>(args.heads));
    auto part = args;
    part.alpha = alpha.data();
    kernel(part, begin, end);
  });
}

class ValueGateOp : public CpuOp {
 public:
  explicit ValueGateOp(Gate gate) : gate_(gate) {}
  TensorList forward(const TensorList& inputs, TensorList& saved) override {
    const at::Tensor &v = inputs[0], &v1 = inputs[1];
    saved = {v1, inputs[2]};
    const at::Tensor logits = dense_fp32(inputs[2]), mixed = at::empty_like(v);
    with_element(isa(), v.scalar_type(), [&](const auto& table, auto element) {
      using T = decltype(element);
      auto args = arguments<T>(v1, logits, gate_);
      args.v = in<T>(v);
      args.out = out<T>(mixed);
      over_tokens<T>(table.value_gate, args, v.size(0) * v.size(1));
    });
    return {mixed};
  }
  TensorList backward(const TensorList& grads, const TensorList& saved, const std::vector<bool>& needs) override {
    TensorList result(3);
    if (!grads[0].defined()) return result;
    result[0] = grads[0];
    if (!needs[1] && !needs[2]) return result;
    const at::Tensor &v1 = saved[0], logits = dense_fp32(saved[1]), dy = dense(grads[0], v1.scalar_type());
    if (needs[1]) result[1] = at::empty_like(v1);
    at::Tensor dlogits;
    if (needs[2]) dlogits = at::empty_like(logits);
    with_element(isa(), v1.scalar_type(), [&](const auto& table, auto element) {
      using T = decltype(element);
      auto args = arguments<T>(v1, logits, gate_);
      args.dy = in<T>(dy);
      args.dv1 = out<T>(result[1]);
      args.dlogits = out<float>(dlogits);
      over_tokens<T>(table.value_gate_grad, args, v1.size(0) * v1.size(1));
    });
    if (needs[2]) result[2] = dlogits.to(saved[1].scalar_type());
    return result;
  }

 private:
  Gate gate_;
};

// Inputs: v, v1, lambda1, lambda2.
class StaticMixOp : public CpuOp {
 public:
  TensorList forward(const TensorList& inputs, TensorList& saved) override {
    saved = inputs;
    const at::Tensor mixed = at::empty_like(inputs[0]);
    with_element(isa(), mixed.scalar_type(), [&](const auto& table, auto element) {
      using T = decltype(element);
      auto args = arguments<T>(inputs);
      args.out = out<T>(mixed);
      parallel_ranges(mixed.numel(), 1, [&](std::int64_t b, std::int64_t e) { table.static_mix(args, b, e); });
    });
    return {mixed};
  }
  TensorList backward(const TensorList& grads, const TensorList& saved, const std::vector<bool>& needs) override {
    TensorList result(4);
    if (!grads[0].defined()) return result;
    const at::Tensor dy = dense(grads[0], saved[0].scalar_type());
    const RowBlocks blocks(dy.numel());
    if (needs[0]) result[0] = at::empty_like(dy);
    if (needs[1]) result[1] = at::empty_like(dy);
    at::Tensor partial;
    if (needs[2] || needs[3]) partial = block_sums(blocks, 2, at::kDouble);
    with_element(isa(), dy.scalar_type(), [&](const auto& table, auto element) {
      using T = decltype(element);
      auto args = arguments<T>(saved);
      args.dy = in<T>(dy);
      args.dv = out<T>(result[0]);
      args.dv1 = out<T>(result[1]);
      args.dots = out<double>(partial);
      parallel_blocks(blocks, 1, [&](std::int64_t block, std::int64_t begin, std::int64_t end) {
        auto part = args;
        if (part.dots) part.dots += 2 * block;
        table.static_mix_grad(part, begin, end);
      });
    });
    if (!partial.defined()) return result;
    const at::Tensor sums = sum_of_blocks(partial);
    for (std::size_t i = 2; i < 4; ++i) {
      if (needs[i]) {
        result[i] = sums.select(0, static_cast<std::int64_t>(i) - 2).to(saved[i].scalar_type()).view_as(saved[i]);
      }
    }
    return result;
  }

 private:
  template <class T>
  static rows::StaticMix<T> arguments(const TensorList& inputs) {
    return {.v = in<T>(inputs[0]),
            .v1 = in<T>(inputs[1]),
            .out = nullptr,
            .dy = nullptr,
            .dv = nullptr,
            .dv1 = nullptr,
            .dots = nullptr,
            .lambda1 = inputs[2].item<float>(),
            .lambda2 = inputs[3].item<float>()};
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

}  // namespace satformer::cpu
