#include <ATen/core/grad_mode.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/scalar_tensor.h>
#include <ATen/ops/zeros.h>

#include <algorithm>

#include "base/error.h"
#include "kernels/cpu_rows.h"
#include "kernels/linear_cross_entropy/linear_cross_entropy.h"

namespace satformer::cpu {
namespace {

constexpr std::int64_t logits_bytes = std::int64_t{24} << 20;  // of one chunk

// The gradients wait in the object, not among the saved tensors, so that backward can hand them on without a copy.
class LinearCrossEntropyOp : public CpuOp {
 public:
  LinearCrossEntropyOp(double scale, bool want_hidden, bool want_weight)
      : scale_(scale), want_hidden_(want_hidden), want_weight_(want_weight) {}

  TensorList forward(const TensorList& inputs, TensorList&) override {
    const at::Tensor &hidden = inputs[0], &weight = inputs[1], &targets = inputs[2];
    const std::int64_t N = hidden.size(0), V = weight.size(0);
    const auto element_bytes = static_cast<std::int64_t>(hidden.element_size());
    const std::int64_t chunk =
        std::clamp<std::int64_t>(logits_bytes / (V * element_bytes), 16, std::max(N, std::int64_t{16}));
    const at::Tensor buffer = at::empty({std::min(chunk, N), V}, hidden.options());
    const at::Tensor losses = at::zeros({N}, at::TensorOptions().dtype(at::kDouble));
    if (want_hidden_) dhidden_ = at::empty_like(hidden);
    // In bf16 the sum over chunks is kept in fp32.
    if (want_weight_) dweight_ = at::zeros(weight.sizes(), weight.options().dtype(at::kFloat));
    for (std::int64_t begin = 0; begin < N; begin += chunk) {
      const std::int64_t count = std::min(chunk, N - begin);
      at::Tensor logits = buffer.narrow(0, 0, count);
      const at::Tensor h = hidden.narrow(0, begin, count);
      at::mm_out(logits, h, weight.t());
      rows_of(logits, targets.narrow(0, begin, count), losses.narrow(0, begin, count));
      if (want_hidden_) {
        at::Tensor dh = dhidden_.narrow(0, begin, count);
        at::mm_out(dh, logits, weight);
      }
      if (want_weight_) add_weight_grad(logits, h);
    }
    if (want_weight_) dweight_ = dweight_.to(weight.scalar_type());
    return {(losses.sum() * scale_).to(at::kFloat)};
  }

  TensorList backward(const TensorList& grads, const TensorList&, const std::vector<bool>& needs) override {
    TensorList result(3);
    if (!grads[0].defined()) return result;
    if (spent_) fail(ExitCode::internal, "linear_cross_entropy: a second backward through the same loss");
    spent_ = true;
    const double factor = grads[0].item<double>();
    const auto hand_on = [&](at::Tensor& grad) {
      if (factor != 1.0) grad.mul_(factor);
      return std::move(grad);
    };
    if (needs[0]) result[0] = hand_on(dhidden_);
    if (needs[1]) result[1] = hand_on(dweight_);
    return result;
  }

 private:
  void rows_of(const at::Tensor& logits, const at::Tensor& targets, const at::Tensor& losses) const {
    with_element(isa(), logits.scalar_type(), [&](const auto& table, auto element) {
      using T = decltype(element);
      const rows::CrossEntropy<T> args{.logits = out<T>(logits),
                                       .targets = in<std::int64_t>(targets),
                                       .losses = out<double>(losses),
                                       .columns = logits.size(1),
                                       .ignored = ignore_index,
                                       .scale = static_cast<float>(scale_),
                                       .grad = want_hidden_ || want_weight_};
      parallel_ranges(logits.size(0), 8 * logits.size(1),
                      [&](std::int64_t begin, std::int64_t end) { table.cross_entropy(args, begin, end); });
    });
  }

  void add_weight_grad(const at::Tensor& dlogits, const at::Tensor& hidden) {
    if (dlogits.scalar_type() == at::kFloat) {
      dweight_.addmm_(dlogits.t(), hidden);
      return;
    }
    constexpr std::int64_t slice = 8192;  // of the vocabulary
    for (std::int64_t v = 0; v < dweight_.size(0); v += slice) {
      const std::int64_t count = std::min(slice, dweight_.size(0) - v);
      dweight_.narrow(0, v, count).add_(at::mm(dlogits.narrow(1, v, count).t(), hidden));
    }
  }

  double scale_;
  bool want_hidden_, want_weight_, spent_ = false;
  at::Tensor dhidden_, dweight_;
};

}  // namespace

at::Tensor linear_cross_entropy(const at::Tensor& hidden_NC, const at::Tensor& weight_VC, const at::Tensor& targets_N,
                                double scale) {
  const bool record = at::GradMode::is_enabled();
  auto op = std::make_shared<LinearCrossEntropyOp>(scale, record && hidden_NC.requires_grad(),
                                                   record && weight_VC.requires_grad());
  return apply_op(std::move(op), {hidden_NC.contiguous(), weight_VC.contiguous(), targets_N.contiguous()})[0];
}

}  // namespace satformer::cpu
