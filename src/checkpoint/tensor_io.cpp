#include "checkpoint/tensor_io.h"

#include <ATen/ops/empty.h>

#include <cstring>
#include <utility>

#include "base/error.h"

namespace satformer {
namespace {

constexpr std::pair<const char*, at::ScalarType> type_names[] = {
    {"F64", at::kDouble}, {"F32", at::kFloat}, {"F16", at::kHalf}, {"BF16", at::kBFloat16}, {"I64", at::kLong},
    {"I32", at::kInt},    {"I16", at::kShort}, {"I8", at::kChar},  {"U8", at::kByte},       {"BOOL", at::kBool},
};

}  // namespace

at::Tensor tensor_from_view(const TensorView& view) {
  for (const auto& [name, type] : type_names) {
    if (view.dtype != name) continue;
    at::Tensor tensor = at::empty(view.shape, at::TensorOptions().dtype(type));
    if (!view.data.empty()) std::memcpy(tensor.data_ptr(), view.data.data(), view.data.size());
    return tensor;
  }
  fail(ExitCode::checkpoint, "tensor '", view.name, "' has the unsupported type ", view.dtype);
}

TensorView view_of_tensor(const std::string& name, const at::Tensor& tensor) {
  if (!tensor.device().is_cpu() || !tensor.is_contiguous()) {
    fail(ExitCode::internal, "tensor '", name, "' must be contiguous on the CPU to be written");
  }
  for (const auto& [type_name, type] : type_names) {
    if (tensor.scalar_type() != type) continue;
    return {name,
            type_name,
            tensor.sizes().vec(),
            {static_cast<const std::byte*>(tensor.const_data_ptr()), static_cast<std::size_t>(tensor.nbytes())}};
  }
  fail(ExitCode::internal, "tensor '", name, "' has a type that cannot be written");
}

std::string shape_text(at::IntArrayRef shape) {
  std::string text = "[";
  for (std::size_t i = 0; i < shape.size(); ++i) text += (i ? ", " : "") + std::to_string(shape[i]);
  return text + "]";
}

}  // namespace satformer
