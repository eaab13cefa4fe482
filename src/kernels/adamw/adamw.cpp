#include "kernels/adamw/adamw.h"

#include <algorithm>

#include "base/error.h"
#include "kernels/backend.h"

namespace satformer {
namespace {

bool readable(const at::Tensor& t) { return t.scalar_type() == at::kFloat || t.scalar_type() == at::kBFloat16; }

bool writable(const at::Tensor& t) { return t.scalar_type() == at::kFloat && t.is_contiguous(); }

bool all(const std::vector<at::Tensor>& list, bool (*test)(const at::Tensor&), at::Device device) {
  return std::all_of(list.begin(), list.end(),
                     [&](const at::Tensor& t) { return !t.defined() || (t.device() == device && test(t)); });
}

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
  if (count == 0) return;
  const at::Device device = tensors.params[0].device();
  const bool fits = all(tensors.grads, readable, device) && all(tensors.params, writable, device) &&
                    all(tensors.m, writable, device) && all(tensors.v, writable, device);
  const Path path = fits ? path_on(device) : Path::reference;
  (path == Path::cpu   ? cpu::adamw_step
   : path == Path::gpu ? gpu::adamw_step
                       : reference::adamw_step)(tensors, options);
}

double global_norm(const std::vector<at::Tensor>& tensors) {
  const auto first = std::find_if(tensors.begin(), tensors.end(), [](const at::Tensor& t) { return t.defined(); });
  if (first == tensors.end()) return 0.0;
  const Path path = all(tensors, readable, first->device()) ? path_on(first->device()) : Path::reference;
  return (path == Path::cpu   ? cpu::global_norm
          : path == Path::gpu ? gpu::global_norm
                              : reference::global_norm)(tensors);
}

}  // namespace satformer
