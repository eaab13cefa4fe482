#include "base/error.h"
#include "kernels/cpu_rows.h"
#include "kernels/qk_norm_rope/qk_norm_rope.h"

namespace satformer::cpu {
namespace {

struct Rope {
  at::Tensor cos, sin, positions;  // fp32, fp32, int64 or undefined
  double eps;
};

// The arguments that forward and backward share. `x` gives the shape (backward without a norm: the gradient).
template <class T>
rows::QkNormRope<T> arguments(const at::Tensor& x, const at::Tensor& weight_fp32, const Rope& rope) {
  return {.x = in<T>(x),
          .dy = nullptr,
          .weight = in<float>(weight_fp32),
          .cos = in<float>(rope.cos),
          .sin = in<float>(rope.sin),
          .positions = in<std::int64_t>(rope.positions),
          .out = nullptr,
          .dweight = nullptr,
          .tokens_per_row = x.size(1),
          .heads = x.size(2),
          .head_dim = x.size(3),
          .eps = static_cast<float>(rope.eps)};
}

class QkNormRopeOp : public CpuOp {
 public:
  explicit QkNormRopeOp(Rope rope) : rope_(std::move(rope)) {}

  TensorList forward(const TensorList& inputs, TensorList& saved) override {
    const at::Tensor &x = inputs[0], &weight = inputs[1];
    normed_ = weight.defined();
    if (normed_) saved = inputs;
    const at::Tensor y = at::empty_like(x), w = dense_fp32(weight);
    with_element(isa(), x.scalar_type(), [&](const auto& table, auto element) {
      using T = decltype(element);
      auto args = arguments<T>(x, w, rope_);
      args.out = out<T>(y);
      parallel_ranges(x.size(0) * x.size(1), x.size(2) * x.size(3),
                      [&](std::int64_t begin, std::int64_t end) { table.qk_norm_rope(args, begin, end); });
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
    const std::int64_t D = x.size(3);
    const RowBlocks blocks(x.size(0) * x.size(1));
    if (needs[0]) result[0] = at::empty_like(x);
    at::Tensor partial;
    if (needs[1]) partial = block_sums(blocks, D);
    with_element(isa(), x.scalar_type(), [&](const auto& table, auto element) {
      using T = decltype(element);
      auto args = arguments<T>(x, w, rope_);
      args.dy = in<T>(dy);
      args.out = out<T>(result[0]);
      args.dweight = out<float>(partial);
      parallel_blocks(blocks, x.size(2) * D, [&](std::int64_t block, std::int64_t begin, std::int64_t end) {
        auto part = args;
        if (part.dweight) part.dweight += block * D;
        table.qk_norm_rope_grad(part, begin, end);
      });
    });
    if (needs[1]) result[1] = sum_of_blocks(partial).to(saved[1].scalar_type()).view_as(saved[1]);
    return result;
  }

 private:
  Rope rope_;
  bool normed_ = false;
};

void check_positions(const at::Tensor& positions, std::int64_t tokens, std::int64_t table_rows) {
  if (!positions.defined()) {
    if (tokens > table_rows) {
      fail(ExitCode::internal, "qk_norm_rope: ", tokens, " tokens, a table of ", table_rows, " positions");
    }
    return;
  }
  const std::int64_t* p = positions.const_data_ptr<std::int64_t>();
  for (std::int64_t i = 0; i < positions.numel(); ++i) {
    if (p[i] < 0 || p[i] >= table_rows) {
      fail(ExitCode::internal, "qk_norm_rope: position ", p[i], ", a table of ", table_rows, " positions");
    }
  }
}

}  // namespace

at::Tensor qk_norm_rope(const at::Tensor& x_BTHD, const at::Tensor& weight, double eps, const RopeTable& table,
                        const at::Tensor& positions_BT) {
  Rope rope{dense_fp32(table.cos_PD), dense_fp32(table.sin_PD), dense(positions_BT, at::kLong), eps};
  check_positions(rope.positions, x_BTHD.size(1), rope.cos.size(0));
  return apply_op(std::make_shared<QkNormRopeOp>(std::move(rope)), {x_BTHD.contiguous(), weight})[0];
}

}  // namespace satformer::cpu
