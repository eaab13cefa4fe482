#include "nn/values/running_mean.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/cumsum.h>
#include <ATen/ops/gather.h>
#include <ATen/ops/zeros_like.h>

namespace satformer {

at::Tensor running_mean(std::int64_t layer, const at::Tensor& x_BTP, const ValueContext& context) {
  at::Tensor x = x_BTP.to(at::kFloat);
  if (context.valid_BT.defined()) x = x.masked_fill(context.valid_BT.logical_not().unsqueeze(-1), 0.0);
  if (context.cache) {
    return context.cache->add_to_sums(layer, x) / context.cache->tokens_BT().clamp_min(1).unsqueeze(-1);
  }
  const at::Tensor counts = context.valid_BT.defined()
                                ? at::cumsum(context.valid_BT.to(at::kLong), 1).clamp_min(1).unsqueeze(-1)
                                : at::arange(1, x.size(1) + 1, x.options().dtype(at::kLong)).unsqueeze(-1);
  const at::Tensor sums = at::cumsum(x, 1);
  if (!context.document_start_BT.defined()) return sums / counts;
  // Less the sum before the document's first token.
  const at::Tensor start = context.document_start_BT.unsqueeze(-1).expand_as(sums);
  const at::Tensor before = at::gather(at::cat({at::zeros_like(sums.narrow(1, 0, 1)), sums}, 1), 1, start);
  return (sums - before) / (counts - context.document_start_BT.unsqueeze(-1));
}

}  // namespace satformer
