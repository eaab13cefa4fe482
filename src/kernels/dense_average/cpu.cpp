#include "kernels/cpu_rows.h"
#include "kernels/dense_average/dense_average.h"

namespace satformer::cpu {
namespace {

// Inputs: the states, then the weights.
class DenseAverageOp : public CpuOp {
 public:
  TensorList forward(const TensorList& inputs, TensorList& saved) override {
    saved = inputs;
    const at::Tensor w = dense_fp32(inputs.back()), sum = at::empty_like(inputs[0]);
    with_element(isa(), sum.scalar_type(), [&](const auto& table, auto element) {
      using T = decltype(element);
      const std::vector<const T*> states = pointers<T>(inputs);
      auto args = arguments<T>(states, w);
      args.out = out<T>(sum);
      parallel_ranges(sum.numel(), args.count,
                      [&](std::int64_t b, std::int64_t e) { table.dense_average(args, b, e); });
    });
    return {sum};
  }
  TensorList backward(const TensorList& grads, const TensorList& saved, const std::vector<bool>& needs) override {
    TensorList result(saved.size());
    if (!grads[0].defined()) return result;
    const std::size_t count = saved.size() - 1;
    const at::Tensor w = dense_fp32(saved.back()), dy = dense(grads[0], saved[0].scalar_type());
    for (std::size_t j = 0; j < count; ++j) {
      if (needs[j]) result[j] = at::empty_like(saved[j]);
    }
    const RowBlocks blocks(dy.numel());
    const auto N = static_cast<std::int64_t>(count);
    at::Tensor partial;
    if (needs[count]) partial = block_sums(blocks, N, at::kDouble);
    with_element(isa(), dy.scalar_type(), [&](const auto& table, auto element) {
      using T = decltype(element);
      const std::vector<const T*> states = pointers<T>(saved);
      std::vector<T*> dstates;
      for (std::size_t j = 0; j < count; ++j) dstates.push_back(out<T>(result[j]));
      auto args = arguments<T>(states, w);
      args.dy = in<T>(dy);
      args.dstates = dstates.data();
      args.dots = out<double>(partial);
      parallel_blocks(blocks, N, [&](std::int64_t block, std::int64_t begin, std::int64_t end) {
        auto part = args;
        if (part.dots) part.dots += block * N;
        table.dense_average_grad(part, begin, end);
      });
    });
    if (needs[count]) result[count] = sum_of_blocks(partial).to(saved[count].scalar_type()).view_as(saved[count]);
    return result;
  }

 private:
  template <class T>
  static std::vector<const T*> pointers(const TensorList& inputs) {
    std::vector<const T*> states;
    for (std::size_t j = 0; j + 1 < inputs.size(); ++j) states.push_back(in<T>(inputs[j]));
    return states;
  }
  template <class T>
  static rows::DenseAverage<T> arguments(const std::vector<const T*>& states, const at::Tensor& w) {
    return {.states = states.data(),
            .weights = in<float>(w),
            .out = nullptr,
            .dy = nullptr,
            .dstates = nullptr,
            .dots = nullptr,
            .count = static_cast<std::int64_t>(states.size())};
  }
};

}  // namespace

at::Tensor dense_average(const std::vector<at::Tensor>& states, const at::Tensor& weights) {
  TensorList inputs;
  for (const at::Tensor& t : states) inputs.push_back(t.contiguous());
  inputs.push_back(weights);
  return apply_op(std::make_shared<DenseAverageOp>(), inputs)[0];
}

}  // namespace satformer::cpu
