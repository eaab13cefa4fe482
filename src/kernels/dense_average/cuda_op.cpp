#include "kernels/dense_average/cuda.h"
#include "kernels/dense_average/dense_average.h"
#include "kernels/gpu/op.h"

namespace satformer::gpu {
namespace {

// Inputs: the states, then the weights.
class DenseAverageOp : public DifferentiableOp {
 public:
  TensorList forward(const TensorList& inputs, TensorList& saved) override {
    saved = inputs;
    const Call call(inputs[0]);
    const at::Tensor w = dense_fp32(inputs.back()), sum = at::empty_like(inputs[0]);
    with_element(sum.scalar_type(), [&](auto element) {
      using T = decltype(element);
      auto args = arguments<T>(inputs, w);
      args.out = out<T>(sum);
      dense_average(call.where(), args);
    });
    return {sum};
  }
  TensorList backward(const TensorList& grads, const TensorList& saved, const std::vector<bool>& needs) override {
    TensorList result(saved.size());
    if (!grads[0].defined()) return result;
    const Call call(saved[0]);
    const std::size_t count = saved.size() - 1;
    const at::Tensor w = dense_fp32(saved.back()), dy = dense(grads[0], saved[0].scalar_type());
    for (std::size_t j = 0; j < count; ++j) {
      if (needs[j]) result[j] = at::empty_like(saved[j]);
    }
    at::Tensor partial;
    if (needs[count]) partial = partial_sums(dy, partial_blocks, static_cast<std::int64_t>(count));
    with_element(dy.scalar_type(), [&](auto element) {
      using T = decltype(element);
      auto args = arguments<T>(saved, w);
      args.dy = in<T>(dy);
      for (std::size_t j = 0; j < count; ++j) args.dstates[j] = out<T>(result[j]);
      args.dots = out<float>(partial);
      args.packs = args.packs && fits_packs(args.count, {dy});
      dense_average_grad(call.where(), args);
    });
    if (needs[count]) result[count] = total_like(partial, saved[count]);
    return result;
  }

 private:
  template <class T>
  static DenseAverage<T> arguments(const TensorList& inputs, const at::Tensor& w) {
    DenseAverage<T> args{};
    const TensorList states(inputs.begin(), inputs.end() - 1);
    for (std::size_t j = 0; j < states.size(); ++j) args.states[j] = in<T>(states[j]);
    args.weights = in<float>(w);
    args.states_count = static_cast<int>(states.size());
    args.count = inputs[0].numel();
    args.packs = fits_packs(args.count, states);
    return args;
  }
};

}  // namespace

at::Tensor dense_average(const std::vector<at::Tensor>& states, const at::Tensor& weights) {
  TensorList inputs;
  for (const at::Tensor& t : states) inputs.push_back(t.contiguous());
  inputs.push_back(weights);
  return apply_op(std::make_shared<DenseAverageOp>(), inputs)[0];
}

}  // namespace satformer::gpu
