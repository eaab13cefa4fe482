// Scaled dot-product attention, query head h reading KV head h / (H / Hkv).
#pragma once

#include "kernels/tensor.h"

#include <optional>

namespace satformer {

enum class MaskKind { causal, bidirectional };

struct AttentionMask {
  MaskKind kind = MaskKind::causal;
  std::optional<std::int64_t> window = {};  // keys that a query sees, itself included (causal)
  // Cached decoding and padding. Without them query t and key t stand at position t.
  at::Tensor key_valid_BS = {};    // bool: keys that may be seen; undefined: all
  at::Tensor query_index_BT = {};  // int64: index among the keys at which each query stands; undefined: t + (S - T)
  // int64 [B, T], T = S: the document of each position; positions of other documents are not seen. Undefined: one.
  at::Tensor document_BT = {};
};

// q [B, T, H, D]; k, v [B, S, Hkv, D]; returns [B, T, H, D]. A query that sees no key gives zeros.
at::Tensor attention(const at::Tensor& q_BTHD, const at::Tensor& k_BSHD, const at::Tensor& v_BSHD,
                     const AttentionMask& mask);

namespace reference {
at::Tensor attention(const at::Tensor& q_BTHD, const at::Tensor& k_BSHD, const at::Tensor& v_BSHD,
                     const AttentionMask& mask);
}  // namespace reference

}  // namespace satformer
