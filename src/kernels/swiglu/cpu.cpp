#include "kernels/cpu_rows.h"
#include "kernels/swiglu/ops.h"
#include "kernels/swiglu/swiglu.h"

namespace satformer::cpu {
namespace {

constexpr std::int64_t work_per_element = 4;  // an exponential costs about as much

class CpuSwiglu : public CpuOp {
 protected:
  at::Tensor product(const at::Tensor& gate, const at::Tensor& up) const {
    const at::Tensor y = at::empty_like(gate);
    with_element(isa(), gate.scalar_type(), [&](const auto& table, auto element) {
      using T = decltype(element);
      const rows::Swiglu<T> args{in<T>(gate), in<T>(up), out<T>(y)};
      parallel_ranges(gate.numel(), work_per_element,
                      [&](std::int64_t begin, std::int64_t end) { table.swiglu(args, begin, end); });
    });
    return y;
  }

  ProductGrads product_grads(const at::Tensor& gate, const at::Tensor& up, const at::Tensor& dy,
                             bool recompute) const {
    const ProductGrads grads{at::empty_like(gate), at::empty_like(up)};
    with_element(isa(), gate.scalar_type(), [&](const auto& table, auto element) {
      using T = decltype(element);
      const rows::SwigluGrad<T> args{.gate = in<T>(gate),
                                     .up = in<T>(up),
                                     .dy = in<T>(dy),
                                     .dgate = out<T>(grads.gate),
                                     .dup = out<T>(grads.up),
                                     .product = recompute ? out<T>(dy) : nullptr};
      parallel_ranges(gate.numel(), work_per_element,
                      [&](std::int64_t begin, std::int64_t end) { table.swiglu_grad(args, begin, end); });
    });
    return grads;
  }
};

}  // namespace

at::Tensor swiglu(const at::Tensor& gate, const at::Tensor& up) { return apply_swiglu<CpuSwiglu>(gate, up); }

at::Tensor gated_mlp(const at::Tensor& x, const at::Tensor& w_gate, const at::Tensor& w_up,
                     const at::Tensor& w_down) {
  return apply_gated_mlp<CpuSwiglu>(x, w_gate, w_up, w_down);
}

}  // namespace satformer::cpu
