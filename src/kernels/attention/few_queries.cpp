#include "kernels/attention/few_queries.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>

#include "kernels/cpu_rows.h"

namespace satformer::cpu {
namespace {

// Heads of contiguous elements, side by side.
bool heads_in_order(const at::Tensor& t) { return t.stride(3) == 1 && t.stride(2) == t.size(3); }

}  // namespace

bool few_queries_fit(const at::Tensor& q_BTHD, const at::Tensor& k_BSHD, const at::Tensor& v_BSHD,
                     const AttentionMask& mask) {
  return !has_backward() && path_for(q_BTHD) == Path::cpu && q_BTHD.size(1) <= few_queries_limit &&
         mask.kind == MaskKind::causal && mask.query_index_BT.defined() && !mask.document_BT.defined() &&
         k_BSHD.scalar_type() == q_BTHD.scalar_type() && v_BSHD.scalar_type() == q_BTHD.scalar_type() &&
         heads_in_order(k_BSHD) && heads_in_order(v_BSHD);
}

at::Tensor few_queries_attention(const at::Tensor& q_BTHD, const at::Tensor& k_BSHD, const at::Tensor& v_BSHD,
                                 const AttentionMask& mask) {
  const std::int64_t B = q_BTHD.size(0), T = q_BTHD.size(1), H = q_BTHD.size(2), D = q_BTHD.size(3);
  const std::int64_t S = k_BSHD.size(1), kv = k_BSHD.size(2);
  const at::Tensor q = q_BTHD.contiguous(), own = mask.query_index_BT.contiguous();
  at::Tensor valid;
  if (mask.key_valid_BS.defined()) {
    valid = mask.key_valid_BS.stride(1) == 1 ? mask.key_valid_BS : mask.key_valid_BS.contiguous();
  }
  const at::Tensor result = at::empty_like(q);
  with_element(isa_table(), q.scalar_type(), [&](const auto& table, auto element) {
    using E = decltype(element);
    const rows::FewQueries<E> args{.q = in<E>(q),
                                   .k = in<E>(k_BSHD),
                                   .v = in<E>(v_BSHD),
                                   .out = out<E>(result),
                                   .own_slot = in<std::int64_t>(own),
                                   .valid = in<bool>(valid),
                                   .scratch = nullptr,
                                   .key_row = k_BSHD.stride(0),
                                   .key_slot = k_BSHD.stride(1),
                                   .value_row = v_BSHD.stride(0),
                                   .value_slot = v_BSHD.stride(1),
                                   .valid_stride = valid.defined() ? valid.stride(0) : 0,
                                   .queries = T,
                                   .heads = H,
                                   .kv_heads = kv,
                                   .head_dim = D,
                                   .slots = S,
                                   .window = mask.window.value_or(0)};
    parallel_ranges(B * kv, T * (H / kv) * S * D, [&](std::int64_t begin, std::int64_t end) {
      std::vector<float> scratch(static_cast<std::size_t>(S + D));
      rows::FewQueries<E> own_args = args;
      own_args.scratch = scratch.data();
      table.few_queries(own_args, begin, end);
    });
  });
  return result;
}

}  // namespace satformer::cpu
