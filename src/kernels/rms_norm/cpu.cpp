#include "kernels/cpu_rows.h"
#include "kernels/rms_norm/rms_norm.h"

namespace satformer::cpu {
namespace {

struct NormGrads {
  at::Tensor x, weight;
};

// `dy` and `dsum` may be undefined, not both.
NormGrads norm_grads(const rows::IsaTable& isa, const at::Tensor& x, const at::Tensor& weight, double eps,
                     const at::Tensor& dy, const at::Tensor& dsum, bool want_x, bool want_weight) {
  NormGrads grads;
  if (!dy.defined()) {
    if (want_x) grads.x = dsum;
    return grads;
  }
  const std::int64_t C = x.size(-1);
  const RowBlocks blocks(x.numel() / C);
  const at::Tensor w = norm_weight(weight, C), dy_dense = dense(dy, x.scalar_type()),
                   dsum_dense = dense(dsum, x.scalar_type());
  if (want_x) grads.x = at::empty_like(x);
  at::Tensor partial;
  if (want_weight) partial = block_sums(blocks, C);
  with_element(isa, x.scalar_type(), [&](const auto& table, auto element) {
    using T = decltype(element);
    const rows::RmsNormGrad<T> args{.x = in<T>(x),
                                    .dy = in<T>(dy_dense),
                                    .dsum = in<T>(dsum_dense),
                                    .weight = in<float>(w),
                                    .dx = out<T>(grads.x),
                                    .dweight = out<float>(partial),
                                    .columns = C,
                                    .eps = static_cast<float>(eps)};
    parallel_blocks(blocks, C, [&](std::int64_t block, std::int64_t begin, std::int64_t end) {
      auto part = args;
      if (part.dweight) part.dweight += block * C;
      table.rms_norm_grad(part, begin, end);
    });
  });
  if (want_weight) grads.weight = sum_of_blocks(partial).to(weight.scalar_type()).view_as(weight);
  return grads;
}

// rms_norm(x + residual), or of x alone; the rounded sum into `sum` if it is defined.
at::Tensor normalise(const rows::IsaTable& isa, const at::Tensor& x, const at::Tensor& residual,
                     const at::Tensor& weight, double eps, const at::Tensor& sum) {
  const std::int64_t C = x.size(-1);
  const at::Tensor w = norm_weight(weight, C), y = at::empty_like(x);
  with_element(isa, x.scalar_type(), [&](const auto& table, auto element) {
    using T = decltype(element);
    const rows::RmsNorm<T> args{.x = in<T>(x),
                                .residual = in<T>(residual),
                                .weight = in<float>(w),
                                .y = out<T>(y),
                                .sum = out<T>(sum),
                                .columns = C,
                                .eps = static_cast<float>(eps)};
    parallel_ranges(x.numel() / C, residual.defined() ? 2 * C : C,
                    [&](std::int64_t b, std::int64_t e) { table.rms_norm(args, b, e); });
  });
  return y;
}

class RmsNormOp : public CpuOp {
 public:
  explicit RmsNormOp(double eps) : eps_(eps) {}
  TensorList forward(const TensorList& inputs, TensorList& saved) override {
    saved = inputs;
    return {normalise(isa(), inputs[0], {}, inputs[1], eps_, {})};
  }
  int remakes(std::size_t) const override { return 1; }
  at::Tensor remake(std::size_t, const TensorList& saved) override {
    return normalise(isa(), saved[0], {}, saved[1], eps_, {});
  }
  TensorList backward(const TensorList& grads, const TensorList& saved, const std::vector<bool>& needs) override {
    if (!grads[0].defined()) return TensorList(2);
    const NormGrads result = norm_grads(isa(), saved[0], saved[1], eps_, grads[0], {}, needs[0], needs[1]);
    return {result.x, result.weight};
  }

 private:
  double eps_;
};

class AddRmsNormOp : public CpuOp {
 public:
  explicit AddRmsNormOp(double eps) : eps_(eps) {}
  TensorList forward(const TensorList& inputs, TensorList& saved) override {
    const at::Tensor sum = at::empty_like(inputs[0]);
    const at::Tensor y = normalise(isa(), inputs[0], inputs[1], inputs[2], eps_, sum);
    saved = {sum, inputs[2]};
    return {y, sum};
  }
  // From the rounded sum, as its gradient.
  int remakes(std::size_t output) const override { return output == 0 ? 1 : 0; }
  at::Tensor remake(std::size_t, const TensorList& saved) override {
    return normalise(isa(), saved[0], {}, saved[1], eps_, {});
  }
  TensorList backward(const TensorList& grads, const TensorList& saved, const std::vector<bool>& needs) override {
    if (!grads[0].defined() && !grads[1].defined()) return TensorList(3);
    const NormGrads result =
        norm_grads(isa(), saved[0], saved[1], eps_, grads[0], grads[1], needs[0] || needs[1], needs[2]);
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

}  // namespace satformer::cpu
