#include <ATen/core/grad_mode.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/zeros.h>

#include <algorithm>

#include "base/error.h"
#include "kernels/gpu/op.h"
#include "kernels/linear_cross_entropy/cuda.h"
#include "kernels/linear_cross_entropy/linear_cross_entropy.h"

namespace satformer::gpu {
namespace {

constexpr std::int64_t logits_bytes = std::int64_t{64} << 20;  // of one chunk

// The gradients wait in the object, not among the saved tensors, so that backward can hand them on without a copy.
// Nothing here waits for the device.
class LinearCrossEntropyOp : public DifferentiableOp {
 public:
  LinearCrossEntropyOp(double scale, bool want_hidden, bool want_weight)
      : scale_(scale), want_hidden_(want_hidden), want_weight_(want_weight) {}

  TensorList forward(const TensorList& inputs, TensorList&) override {
    const at::Tensor &hidden = inputs[0], &weight = inputs[1], &targets = inputs[2];
    const Call call(hidden);
    const std::int64_t N = hidden.size(0), V = weight.size(0);
    const auto element_bytes = static_cast<std::int64_t>(hidden.element_size());
    const std::int64_t chunk =
        std::clamp<std::int64_t>(logits_bytes / (V * element_bytes), 16, std::max(N, std::int64_t{16}));
    const at::Tensor buffer = at::empty({std::min(chunk, N), V}, hidden.options());
    const at::Tensor losses = at::empty({N}, hidden.options().dtype(at::kFloat));
    if (want_hidden_) dhidden_ = at::empty_like(hidden);
    // In bf16 the sum over chunks is kept in fp32.
    if (want_weight_) dweight_ = at::zeros(weight.sizes(), weight.options().dtype(at::kFloat));
    for (std::int64_t begin = 0; begin < N; begin += chunk) {
      const std::int64_t count = std::min(chunk, N - begin);
      at::Tensor logits = buffer.narrow(0, 0, count);
      const at::Tensor h = hidden.narrow(0, begin, count);
      at::mm_out(logits, h, weight.t());
      rows_of(call.where(), logits, targets.narrow(0, begin, count), losses.narrow(0, begin, count));
      if (want_hidden_) {
        at::Tensor dh = dhidden_.narrow(0, begin, count);
        at::mm_out(dh, logits, weight);
      }
      if (!want_weight_) continue;
      if (logits.scalar_type() == at::kFloat) {
        dweight_.addmm_(logits.t(), h);
      } else {
        dweight_.add_(at::mm(logits.t(), h));
      }
    }
    if (want_weight_) dweight_ = dweight_.to(weight.scalar_type());
    return {(losses.sum(at::kDouble) * scale_).to(at::kFloat)};
  }

  TensorList backward(const TensorList& grads, const TensorList&, const std::vector<bool>& needs) override {
    TensorList result(3);
    if (!grads[0].defined()) return result;
    if (spent_) fail(ExitCode::internal, "linear_cross_entropy: a second backward through the same loss");
    spent_ = true;
    if (needs[0]) result[0] = std::move(dhidden_.mul_(grads[0]));
    if (needs[1]) result[1] = std::move(dweight_.mul_(grads[0]));
    return result;
  }

 private:
  void rows_of(const Where& where, const at::Tensor& logits, const at::Tensor& targets,
               const at::Tensor& losses) const {
    with_element(logits.scalar_type(), [&](auto element) {
      using T = decltype(element);
      cross_entropy(where, CrossEntropy<T>{.logits = out<T>(logits),
                                           .targets = in<std::int64_t>(targets),
                                           .losses = out<float>(losses),
                                           .rows = logits.size(0),
                                           .columns = static_cast<int>(logits.size(1)),
                                           .ignored = ignore_index,
                                           .scale = static_cast<float>(scale_),
                                           .grad = want_hidden_ || want_weight_,
                                           .packs = fits_packs(logits.size(1), {logits})});
    });
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

}  // namespace satformer::gpu
