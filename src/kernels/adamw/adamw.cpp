#include "kernels/adamw/adamw.h"

#include <algorithm>

#include "base/error.h"
#include "kernels/backend.h"

namespace satformer {
namespace {

// A gradient the rows can read: fp32 or bf16 on the CPU.
bool readable(const at::Tensor& t) {
  return t.is_cpu() && (t.scalar_type() == at::kFloat || t.scalar_type() == at::kBFloat16);
}

bool writable(const at::Tensor& t) { return t.is_cpu() && t.scalar_type() == at::kFloat && t.is_contiguous(); }

}  // namespace

void adamw_step(AdamWTensors& tensors, const AdamWOptions& options) {
  const std::size_t count = tensors.params.size();
  if (tensors.grads.size() != count || tensors.m.size() != count || tensors.v.size() != count) {
    fail(ExitCode::internal, "adamw_step: ", count, " parameters, ", tensors.grads.size(), " gradients, ",
         tensors.m.size(), " and ", tensors.v.size(), " moments");
  }
  for (std::size_t i = 0; i < count; ++i) {
    const std::int64_t n = tensors.params[i].numel();
    if (!tensors.grads[i].defined() || tensors.grads[i].numel() != n || tensors.m[i].numel() != n ||
        tensors.v[i].numel() != n) {
      fail(ExitCode::internal, "adamw_step: parameter ", i, " of ", n,
           " elements lacks a gradient or moment of its size");
    }
  }
  const auto all = [](const std::vector<at::Tensor>& list, bool (*test)(const at::Tensor&)) {
    return std::all_of(list.begin(), list.end(), test);
  };
  if (active_backend() == Backend::automatic && all(tensors.grads, readable) && all(tensors.params, writable) &&
      all(tensors.m, writable) && all(tensors.v, writable)) {
    cpu::adamw_step(tensors, options);
  } else {
    reference::adamw_step(tensors, options);
  }
}

double global_norm(const std::vector<at::Tensor>& tensors) {
  const bool fused =
      active_backend() == Backend::automatic &&
      std::all_of(tensors.begin(), tensors.end(), [](const at::Tensor& t) { return !t.defined() || readable(t); });
  return fused ? cpu::global_norm(tensors) : reference::global_norm(tensors);
}

}  // namespace satformer
