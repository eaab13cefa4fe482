// Attention on a CPU in tiles: no matrix of scores is kept, only a logarithm a row (FlashAttention's algorithm, arXiv
// 2205.14135 and 2307.08691). The products are libtorch's small matrix kernels.
#pragma once

#include "kernels/attention/attention.h"

namespace satformer::cpu {

// Whether the products exist for this type on this CPU. SATFORMER_CPU_ATTENTION=sdpa turns the tiles off,
// SATFORMER_CPU_ATTENTION=tiled takes them for short inputs too; Error(usage) for other values.
bool tiled_attention_fits(const at::Tensor& q_BTHD, const at::Tensor& k_BSHD);

// int64 [B, T] each: the first position of the document of each position, and the one after its last. Undefined: one
// document a row.
struct DocumentBounds {
  at::Tensor begin_BT, end_BT;
};
// Of AttentionMask's documents, on the CPU; nothing where the positions of a document are not side by side in order
// of ids.
std::optional<DocumentBounds> document_bounds(const at::Tensor& document_BT);

// q [B, T, H, D]; k, v [B, S, Hkv, D], D even: every query t stands at position t + S - T. `window` as in
// AttentionMask, of the causal mask; with documents T = S.
at::Tensor tiled_attention(const at::Tensor& q_BTHD, const at::Tensor& k_BSHD, const at::Tensor& v_BSHD, bool causal,
                           std::optional<std::int64_t> window, const DocumentBounds& documents);

}  // namespace satformer::cpu
