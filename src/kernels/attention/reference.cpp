#include <ATen/ops/arange.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/softmax.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros_like.h>
#include "kernels/tensor.h"

#include <cmath>
#include <limits>

#include "kernels/attention/attention.h"
#include "kernels/attention/mask.h"

namespace satformer::reference {

at::Tensor attention(const at::Tensor& q_BTHD, const at::Tensor& k_BSHD, const at::Tensor& v_BSHD,
                     const AttentionMask& mask) {
  const std::int64_t groups = q_BTHD.size(2) / k_BSHD.size(2);
  const auto heads_first = [&](const at::Tensor& t) {
    const at::Tensor full = groups > 1 ? t.repeat_interleave(groups, 2) : t;
    return full.transpose(1, 2).to(at::kFloat);
  };
  const at::Tensor q = q_BTHD.transpose(1, 2).to(at::kFloat), k = heads_first(k_BSHD), v = heads_first(v_BSHD);
  at::Tensor scores = at::matmul(q, k.transpose(-1, -2)) / std::sqrt(static_cast<double>(q.size(-1)));
  const at::Tensor visible =
      visible_keys(mask, q_BTHD.size(1), k_BSHD.size(1), q_BTHD.device());  // [B or 1, 1, T, S]
  scores = scores.masked_fill(visible.logical_not(), -std::numeric_limits<float>::infinity());
  at::Tensor weights = at::softmax(scores, -1);
  weights = at::where(visible.any(-1, true), weights, at::zeros_like(weights));
  return at::matmul(weights, v).transpose(1, 2).to(q_BTHD.scalar_type());
}

}  // namespace satformer::reference
