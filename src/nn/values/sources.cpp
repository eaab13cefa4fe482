#include "nn/values/sources.h"

#include <algorithm>

namespace satformer {

void ValueSources::offer(std::int64_t layer, const at::Tensor& v_BTHD, ValueState& state) const {
  if (std::find(layers_.begin(), layers_.end(), layer) != layers_.end()) state.carried.push_back(v_BTHD);
}

at::Tensor add_over_groups(const at::Tensor& out_BTHD, const at::Tensor& values_BTHD) {
  const std::int64_t B = out_BTHD.size(0), T = out_BTHD.size(1), H = values_BTHD.size(2), D = out_BTHD.size(3);
  const at::Tensor groups = out_BTHD.reshape({B, T, H, out_BTHD.size(2) / H, D});
  return (groups + values_BTHD.unsqueeze(3)).reshape(out_BTHD.sizes());
}

}  // namespace satformer
