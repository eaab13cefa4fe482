#include <ATen/ops/cat.h>

#include <cmath>

#include "kernels/adamw/adamw.h"
#include "kernels/adamw/cuda.h"
#include "kernels/gpu/op.h"

namespace satformer::gpu {
namespace {

// Calls add(i) for every defined tensor of type `dtype` and run() whenever a batch is full, and at the end.
template <class Add, class Run>
void in_batches(const std::vector<at::Tensor>& tensors, at::ScalarType dtype, const Batch& batch, Add add, Run run) {
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    if (!tensors[i].defined() || tensors[i].scalar_type() != dtype || tensors[i].numel() == 0) continue;
    if (batch.tensors == batch_tensors) run();
    add(i);
  }
  if (batch.tensors > 0) run();
}

template <class T>
AdamW<T> constants(const AdamWOptions& o) {
  const auto t = static_cast<double>(o.step);
  AdamW<T> args{};
  args.grad_scale = static_cast<float>(o.grad_scale);
  args.decay = static_cast<float>(1.0 - o.learning_rate * o.weight_decay);
  args.beta1 = static_cast<float>(o.beta1);
  args.one_minus_beta1 = static_cast<float>(1.0 - o.beta1);
  args.beta2 = static_cast<float>(o.beta2);
  args.one_minus_beta2 = static_cast<float>(1.0 - o.beta2);
  args.correction2 = static_cast<float>(1.0 - std::pow(o.beta2, t));
  args.eps = static_cast<float>(o.eps);
  args.step_size = static_cast<float>(o.learning_rate / (1.0 - std::pow(o.beta1, t)));
  return args;
}

}  // namespace

void adamw_step(AdamWTensors& tensors, const AdamWOptions& options) {
  if (tensors.params.empty()) return;
  const Call call(tensors.params[0]);
  std::vector<at::Tensor> grads;
  for (const auto& g : tensors.grads) grads.push_back(g.contiguous());
  for (const at::ScalarType dtype : {at::kFloat, at::kBFloat16}) {
    with_element(dtype, [&](auto element) {
      using T = decltype(element);
      const AdamW<T> empty = constants<T>(options);
      AdamW<T> args = empty;
      const auto add = [&](std::size_t i) {
        const int slot = args.batch.tensors;
        args.param[slot] = out<float>(tensors.params[i]);
        args.grad[slot] = in<T>(grads[i]);
        args.m[slot] = out<float>(tensors.m[i]);
        args.v[slot] = out<float>(tensors.v[i]);
        add_to(&args.batch, grads[i].numel());
      };
      in_batches(grads, dtype, args.batch, add, [&] {
        adamw(call.where(), args);
        args = empty;
      });
    });
  }
  // As an in-place operation of ATen would: a graph that saved the parameter must notice.
  for (auto* list : {&tensors.params, &tensors.m, &tensors.v}) {
    for (auto& tensor : *list) {
      if (!tensor.is_inference()) tensor.unsafeGetTensorImpl()->bump_version();
    }
  }
}

double global_norm(const std::vector<at::Tensor>& tensors) {
  std::vector<at::Tensor> contiguous, sums;
  for (const auto& t : tensors) contiguous.push_back(t.defined() ? t.contiguous() : t);
  for (const at::ScalarType dtype : {at::kFloat, at::kBFloat16}) {
    with_element(dtype, [&](auto element) {
      using T = decltype(element);
      SumOfSquares<T> args{};
      std::size_t first = 0;  // of the batch, whose device is that of all
      const auto add = [&](std::size_t i) {
        first = i;
        args.x[args.batch.tensors] = in<T>(contiguous[i]);
        add_to(&args.batch, contiguous[i].numel());
      };
      in_batches(contiguous, dtype, args.batch, add, [&] {
        const Call call(contiguous[first]);
        sums.push_back(
            at::empty({args.batch.first_piece[args.batch.tensors]}, contiguous[first].options().dtype(at::kDouble)));
        args.sums = out<double>(sums.back());
        sum_of_squares(call.where(), args);
        args = {};
      });
    });
  }
  return sums.empty() ? 0.0 : std::sqrt(at::cat(sums).sum().item<double>());
}

}  // namespace satformer::gpu
