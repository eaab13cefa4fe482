// Means over the tokens that a row has seen.
#pragma once

#include "nn/value_path.h"

namespace satformer {

// x [B, T, P]: for each token the mean of x over the row's tokens up to and including it, fp32. Pads are left out; a
// pad has the mean of the tokens before it, zero if there are none. With a cache, tokens of earlier blocks take part
// and the running sums of `layer` are kept there: one call per layer and pass.
at::Tensor running_mean(std::int64_t layer, const at::Tensor& x_BTP, const ValueContext& context);

}  // namespace satformer
