#include "kernels/linear/linear.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/linear.h>

#include <algorithm>

#include "base/error.h"
#include "kernels/backend.h"
#include "kernels/linear/packed.h"

namespace satformer {
namespace {

// The kernels of packed weights are faster than unpacking up to here.
constexpr std::int64_t packed_rows_limit = 64;

}  // namespace

bool few_rows(const at::Tensor& x) {
  if (has_backward() || path_for(x) != Path::cpu) return false;
  const std::int64_t rows = x.numel() / x.size(-1);
  return rows > 0 && rows <= few_rows_limit;
}

TensorList linear_each(const at::Tensor& x, std::span<const LinearWeight> weights) {
  bool packed = false, all_packed = true, alike = true;
  for (const LinearWeight& w : weights) {
    packed = packed || w.packed;
    all_packed = all_packed && w.packed;
    alike = alike && (w.packed || w.dense.scalar_type() == x.scalar_type());
    const std::int64_t inputs = w.packed ? w.packed->inputs : w.dense.size(1);
    if (x.size(-1) != inputs) fail(ExitCode::internal, "linear: ", x.size(-1), " inputs for ", inputs);
  }
  if (packed && at::GradMode::is_enabled()) {
    fail(ExitCode::config,
         "a model whose weights were quantised has no gradients: load it without --weights to train");
  }
  const std::int64_t rows = x.numel() / std::max<std::int64_t>(1, x.size(-1));
  const bool few_for_packed = all_packed && rows > 0 && rows <= packed_rows_limit && path_for(x) == Path::cpu;
  if (alike && (few_rows(x) || few_for_packed)) return cpu::linear_few_rows(x, weights);
  if (packed && path_for(x) != Path::cpu) return reference::linear_each(x, weights);
  TensorList results;
  for (const LinearWeight& w : weights) {
    results.push_back(w.packed ? cpu::linear_many_rows(x, w) : at::linear(x, w.dense, w.bias));
  }
  return results;
}

at::Tensor linear(const at::Tensor& x, const LinearWeight& weight) { return linear_each(x, {&weight, 1})[0]; }

namespace detail {
at::Tensor stack_rows(const TensorList& rows, const at::Tensor& like) {
  std::vector<std::int64_t> shape = like.sizes().vec();
  shape.back() = rows[0].size(-1);
  return at::cat(rows).view(shape);
}
}  // namespace detail

}  // namespace satformer
