#include "kernels/gpu/op.h"
#include "kernels/rms_norm/cuda.h"
#include "kernels/rms_norm/rms_norm.h"

namespace satformer::gpu {
namespace {

// y; and, with a residual, `sum`.
at::Tensor normalise(const at::Tensor& x, const at::Tensor& residual, const at::Tensor& weight, double eps,
                     const at::Tensor& sum) {
  const Call call(x);
  const std::int64_t C = x.size(-1);
  const at::Tensor w = dense_fp32(weight), y = at::empty_like(x);
  with_element(x.scalar_type(), [&](auto element) {
    using T = decltype(element);
    rms_norm(call.where(), RmsNorm<T>{.x = in<T>(x),
                                      .residual = in<T>(residual),
                                      .weight = in<float>(w),
                                      .y = out<T>(y),
                                      .sum = out<T>(sum),
                                      .rows = x.numel() / C,
                                      .columns = static_cast<int>(C),
                                      .eps = static_cast<float>(eps),
                                      .packs = fits_packs(C, {x, residual, w, y, sum})});
  });
  return y;
}

struct NormGrads {
  at::Tensor x, weight;
};

// `dy` and `dsum` may be undefined, not both.
NormGrads norm_grads(const at::Tensor& x, const at::Tensor& weight, double eps, const at::Tensor& dy,
                     const at::Tensor& dsum, bool want_x, bool want_weight) {
  NormGrads grads;
  if (!dy.defined()) {
    if (want_x) grads.x = dsum;
    return grads;
  }
  const Call call(x);
  const std::int64_t C = x.size(-1);
  const at::Tensor w = dense_fp32(weight), dy_dense = dense(dy, x.scalar_type()),
                   dsum_dense = dense(dsum, x.scalar_type());
  if (want_x) grads.x = at::empty_like(x);
  at::Tensor partial;
  if (want_weight) partial = partial_sums(x, partial_blocks, C);
  with_element(x.scalar_type(), [&](auto element) {
    using T = decltype(element);
    rms_norm_grad(call.where(), RmsNormGrad<T>{.x = in<T>(x),
                                               .dy = in<T>(dy_dense),
                                               .dsum = in<T>(dsum_dense),
                                               .weight = in<float>(w),
                                               .dx = out<T>(grads.x),
                                               .dweight = out<float>(partial),
                                               .rows = x.numel() / C,
                                               .columns = static_cast<int>(C),
                                               .eps = static_cast<float>(eps),
                                               .packs = fits_packs(C, {x, dy_dense, dsum_dense, w, grads.x})});
  });
  if (want_weight) grads.weight = total_like(partial, weight);
  return grads;
}

class RmsNormOp : public DifferentiableOp {
 public:
  explicit RmsNormOp(double eps) : eps_(eps) {}
  TensorList forward(const TensorList& inputs, TensorList& saved) override {
    saved = inputs;
    return {normalise(inputs[0], {}, inputs[1], eps_, {})};
  }
  int remakes(std::size_t) const override { return 1; }
  at::Tensor remake(std::size_t, const TensorList& saved) override {
    return normalise(saved[0], {}, saved[1], eps_, {});
  }
  TensorList backward(const TensorList& grads, const TensorList& saved, const std::vector<bool>& needs) override {
    if (!grads[0].defined()) return TensorList(2);
    const NormGrads result = norm_grads(saved[0], saved[1], eps_, grads[0], {}, needs[0], needs[1]);
    return {result.x, result.weight};
  }

 private:
  double eps_;
};

class AddRmsNormOp : public DifferentiableOp {
 public:
  explicit AddRmsNormOp(double eps) : eps_(eps) {}
  TensorList forward(const TensorList& inputs, TensorList& saved) override {
    const at::Tensor sum = at::empty_like(inputs[0]);
    const at::Tensor y = normalise(inputs[0], inputs[1], inputs[2], eps_, sum);
    saved = {sum, inputs[2]};
    return {y, sum};
  }
  // From the rounded sum, as its gradient.
  int remakes(std::size_t output) const override { return output == 0 ? 1 : 0; }
  at::Tensor remake(std::size_t, const TensorList& saved) override {
    return normalise(saved[0], {}, saved[1], eps_, {});
  }
  TensorList backward(const TensorList& grads, const TensorList& saved, const std::vector<bool>& needs) override {
    if (!grads[0].defined() && !grads[1].defined()) return TensorList(3);
    const NormGrads result = norm_grads(saved[0], saved[1], eps_, grads[0], grads[1], needs[0] || needs[1], needs[2]);
    return {needs[0] ? result.x : at::Tensor(), needs[1] ? result.x : at::Tensor(), result.weight};
  }

 private:
  double eps_;
};

}  // namespace

at::Tensor rms_norm(const at::Tensor& x, const at::Tensor& weight, double eps) {
  return apply_op(std::make_shared<RmsNormOp>(eps), {x.contiguous(), weight})[0];
}

AddNorm add_rms_norm(const at::Tensor& x, const at::Tensor& residual, const at::Tensor& weight, double eps) {
  const TensorList result =
      apply_op(std::make_shared<AddRmsNormOp>(eps), {x.contiguous(), residual.contiguous(), weight});
  return {result[0], result[1]};
}

}  // namespace satformer::gpu
