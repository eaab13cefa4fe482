#include "kernels/gpu/op.h"

#include <ATen/ops/clone.h>
#include <c10/core/Stream.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <algorithm>
#include <cstdint>

#include "base/error.h"

namespace satformer::gpu {

void launch_failed(const char* reason) { fail(ExitCode::internal, "a GPU kernel could not be started: ", reason); }

Call::Call(const at::Tensor& x) {
  if (x.device().is_cpu()) {
    where_.host = true;
    return;
  }
  guard_.reset_device(x.device());
  // Through libtorch's device interface, so that nothing here links libtorch_cuda.
  const c10::impl::VirtualGuardImpl device(x.device().type());
  where_.stream = device.getStream(x.device()).native_handle();
}

at::Tensor aligned(const at::Tensor& t) {
  if (!t.defined()) return t;
  const at::Tensor c = t.contiguous();
  return fits_packs(0, {c}) ? c : c.clone();
}

at::Tensor partial_sums(const at::Tensor& x, std::int64_t count, std::int64_t width, at::ScalarType dtype) {
  return at::empty({count, width}, x.options().dtype(dtype));
}

at::Tensor total_like(const at::Tensor& partial, const at::Tensor& like) {
  return partial.sum(0).to(like.scalar_type()).view_as(like);
}

bool fits_packs(std::int64_t columns, const TensorList& tensors, std::int64_t width) {
  return columns % width == 0 && std::all_of(tensors.begin(), tensors.end(), [&](const at::Tensor& t) {
           const auto size = static_cast<std::size_t>(width) * (t.defined() ? t.element_size() : 1);
           return !t.defined() || reinterpret_cast<std::uintptr_t>(t.const_data_ptr()) % size == 0;
         });
}

}  // namespace satformer::gpu
