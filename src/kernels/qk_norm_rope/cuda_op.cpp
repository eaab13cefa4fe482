#include "base/error.h"
#include "kernels/gpu/op.h"
#include "kernels/qk_norm_rope/cuda.h"
#include "kernels/qk_norm_rope/qk_norm_rope.h"

namespace satformer::gpu {
namespace {

struct Rope {
  at::Tensor cos, sin, positions;  // fp32, fp32, int64 or undefined
  double eps;
};

// What forward and backward share. `x` gives the shape (backward without a norm: the gradient).
template <class T>
QkNormRope<T> arguments(const at::Tensor& x, const at::Tensor& weight_fp32, const Rope& rope) {
  return {.x = in<T>(x),
          .dy = nullptr,
          .weight = in<float>(weight_fp32),
          .cos = in<float>(rope.cos),
          .sin = in<float>(rope.sin),
          .positions = in<std::int64_t>(rope.positions),
          .out = nullptr,
          .dweight = nullptr,
          .rows = x.size(0) * x.size(1) * x.size(2),
          .tokens_per_row = x.size(1),
          .heads = static_cast<int>(x.size(2)),
          .head_dim = static_cast<int>(x.size(3)),
          .eps = static_cast<float>(rope.eps)};
}

class QkNormRopeOp : public DifferentiableOp {
 public:
  explicit QkNormRopeOp(Rope rope) : rope_(std::move(rope)) {}

  TensorList forward(const TensorList& inputs, TensorList& saved) override {
    const at::Tensor &x = inputs[0], &weight = inputs[1];
    normed_ = weight.defined();
    if (normed_) saved = inputs;
    const Call call(x);
    const at::Tensor y = at::empty_like(x), w = dense_fp32(weight);
    with_element(x.scalar_type(), [&](auto element) {
      using T = decltype(element);
      auto args = arguments<T>(x, w, rope_);
      args.out = out<T>(y);
      qk_norm_rope(call.where(), args);
    });
    return {y};
  }
  // Without a norm nothing is saved that could be rotated again.
  int remakes(std::size_t) const override { return normed_ ? 1 : 0; }
  at::Tensor remake(std::size_t, const TensorList& saved) override {
    TensorList same;
    return forward(saved, same)[0];
  }

  TensorList backward(const TensorList& grads, const TensorList& saved, const std::vector<bool>& needs) override {
    TensorList result(2);
    if (!grads[0].defined()) return result;
    const at::Tensor dy = grads[0].contiguous(), x = saved.empty() ? dy : saved[0],
                     w = saved.empty() ? at::Tensor() : dense_fp32(saved[1]);
    const Call call(x);
    if (needs[0]) result[0] = at::empty_like(x);
    at::Tensor partial;
    if (needs[1]) partial = partial_sums(x, partial_warps, x.size(3));
    with_element(x.scalar_type(), [&](auto element) {
      using T = decltype(element);
      auto args = arguments<T>(x, w, rope_);
      args.dy = in<T>(dy);
      args.out = out<T>(result[0]);
      args.dweight = out<float>(partial);
      qk_norm_rope_grad(call.where(), args);
    });
    if (needs[1]) result[1] = total_like(partial, saved[1]);
    return result;
  }

 private:
  Rope rope_;
  bool normed_ = false;
};

}  // namespace

at::Tensor qk_norm_rope(const at::Tensor& x_BTHD, const at::Tensor& weight, double eps, const RopeTable& table,
                        const at::Tensor& positions_BT) {
  // Given positions are not looked at: that would wait for the device.
  if (!positions_BT.defined() && x_BTHD.size(1) > table.cos_PD.size(0)) {
    fail(ExitCode::internal, "qk_norm_rope: ", x_BTHD.size(1), " tokens, a table of ", table.cos_PD.size(0),
         " positions");
  }
  Rope rope{dense_fp32(table.cos_PD), dense_fp32(table.sin_PD), dense(positions_BT, at::kLong), eps};
  return apply_op(std::make_shared<QkNormRopeOp>(std::move(rope)), {x_BTHD.contiguous(), weight})[0];
}

}  // namespace satformer::gpu
