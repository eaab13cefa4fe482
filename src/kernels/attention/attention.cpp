#include "kernels/attention/attention.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/scaled_dot_product_attention.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>

#include "base/error.h"
#include "kernels/attention/few_queries.h"
#include "kernels/attention/mask.h"
#include "kernels/attention/tiled.h"
#include "kernels/backend.h"

namespace satformer {

at::Tensor visible_keys(const AttentionMask& mask, std::int64_t queries, std::int64_t keys, at::Device device) {
  const auto options = at::TensorOptions().dtype(at::kLong).device(device);
  const at::Tensor key = at::arange(keys, options).view({1, 1, 1, keys});
  const at::Tensor query = mask.query_index_BT.defined()
                               ? mask.query_index_BT.unsqueeze(1).unsqueeze(-1)
                               : (at::arange(queries, options) + (keys - queries)).view({1, 1, queries, 1});
  at::Tensor visible = at::ones({1, 1, 1, 1}, options.dtype(at::kBool));
  if (mask.kind == MaskKind::causal) visible = key.le(query);
  if (mask.window) visible = visible.logical_and(key.gt(query - *mask.window));
  if (mask.key_valid_BS.defined()) visible = visible.logical_and(mask.key_valid_BS.unsqueeze(1).unsqueeze(1));
  if (mask.document_BT.defined()) {
    const at::Tensor document = mask.document_BT.unsqueeze(1);
    visible = visible.logical_and(document.unsqueeze(-1).eq(document.unsqueeze(-2)));
  }
  return visible.expand({visible.size(0), 1, queries, keys});
}

at::Tensor attention(const at::Tensor& q_BTHD, const at::Tensor& k_BSHD, const at::Tensor& v_BSHD,
                     const AttentionMask& mask) {
  if (q_BTHD.size(2) % k_BSHD.size(2) != 0) {
    fail(ExitCode::internal, "attention: ", q_BTHD.size(2), " query heads over ", k_BSHD.size(2), " KV heads");
  }
  if (mask.document_BT.defined() &&
      (q_BTHD.size(1) != k_BSHD.size(1) || mask.document_BT.size(1) != q_BTHD.size(1))) {
    fail(ExitCode::internal, "attention: documents are known for ", mask.document_BT.size(1), " positions, not for ",
         q_BTHD.size(1), " queries and ", k_BSHD.size(1), " keys");
  }
  if (active_backend() == Backend::reference) return reference::attention(q_BTHD, k_BSHD, v_BSHD, mask);
  if (cpu::few_queries_fit(q_BTHD, k_BSHD, v_BSHD, mask)) {
    return cpu::few_queries_attention(q_BTHD, k_BSHD, v_BSHD, mask);
  }
  const bool in_order = !mask.key_valid_BS.defined() && !mask.query_index_BT.defined();
  const bool plain = in_order && !mask.document_BT.defined();
  const bool window_of_causal = !mask.window || mask.kind == MaskKind::causal;
  if (in_order && window_of_causal && active_backend() == Backend::automatic &&
      cpu::tiled_attention_fits(q_BTHD, k_BSHD)) {
    const auto documents =
        mask.document_BT.defined() ? cpu::document_bounds(mask.document_BT) : std::optional(cpu::DocumentBounds{});
    if (documents) {
      return cpu::tiled_attention(q_BTHD, k_BSHD, v_BSHD, mask.kind == MaskKind::causal, mask.window, *documents);
    }
  }
  const std::int64_t groups = q_BTHD.size(2) / k_BSHD.size(2);
  const std::int64_t T = q_BTHD.size(1), S = k_BSHD.size(1);
  const bool whole = plain && (!mask.window || *mask.window >= S) && (T == S || mask.kind == MaskKind::bidirectional);
  // On a GPU the bf16 kernels without an explicit mask (cuDNN's, flash) read one KV head for several query heads.
  const bool shared = groups > 1 && whole && q_BTHD.is_cuda() && q_BTHD.scalar_type() == at::kBFloat16;
  const auto heads_first = [&](const at::Tensor& t) {
    return (groups > 1 && !shared ? t.repeat_interleave(groups, 2) : t).transpose(1, 2);
  };
  const at::Tensor q = q_BTHD.transpose(1, 2), k = heads_first(k_BSHD), v = heads_first(v_BSHD);
  if (whole) {
    const bool causal = mask.kind == MaskKind::causal && T > 1;
    return at::scaled_dot_product_attention(q, k, v, {}, 0.0, causal, {}, shared).transpose(1, 2);
  }
  at::Tensor visible = visible_keys(mask, T, S, q.device());
  if (!mask.key_valid_BS.defined()) return at::scaled_dot_product_attention(q, k, v, visible).transpose(1, 2);
  // Softmax over no key at all is undefined: such rows (pads) look at every key and their result is replaced by
  // zeros.
  const at::Tensor any = visible.any(-1, true);  // [B, 1, T, 1]
  visible = visible.logical_or(any.logical_not());
  const at::Tensor out = at::scaled_dot_product_attention(q, k, v, visible).transpose(1, 2);
  return at::where(any.transpose(1, 2), out, at::zeros({}, out.options()));
}

}  // namespace satformer
