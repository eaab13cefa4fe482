// Attention of a few queries to the keys of a cache: a decoding step. What a query gets does not depend on the
// queries and rows beside it, not even in its last bit.
#pragma once

#include "kernels/attention/attention.h"

namespace satformer::cpu {

// Longer blocks of queries are a prompt's.
inline constexpr std::int64_t few_queries_limit = 16;
// Without autograd, with the slots of the queries known (AttentionMask::query_index_BT), causal.
bool few_queries_fit(const at::Tensor& q_BTHD, const at::Tensor& k_BSHD, const at::Tensor& v_BSHD,
                     const AttentionMask& mask);
at::Tensor few_queries_attention(const at::Tensor& q_BTHD, const at::Tensor& k_BSHD, const at::Tensor& v_BSHD,
                                 const AttentionMask& mask);

}  // namespace satformer::cpu
