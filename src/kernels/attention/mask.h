// The explicit form of an AttentionMask.
#pragma once

#include "kernels/attention/attention.h"

namespace satformer {

// bool [B or 1, 1, T, S]: whether query t sees key s.
at::Tensor visible_keys(const AttentionMask& mask, std::int64_t queries, std::int64_t keys, at::Device device);

}  // namespace satformer
