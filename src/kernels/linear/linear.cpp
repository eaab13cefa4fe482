#include "kernels/linear/linear.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/addmm.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/mm.h>

#include <algorithm>

#include "base/error.h"
#include "kernels/autograd.h"
#include "kernels/backend.h"
#include "kernels/linear/packed.h"

namespace satformer {
namespace {

// The kernels of packed weights are faster than unpacking up to here.
constexpr std::int64_t packed_rows_limit = 64;

// Several products of one x. Inputs: x, then for each its weight and its bias or none. Outputs: the products, x.
class JoinedLinearOp : public DifferentiableOp {
 public:
  TensorList forward(const TensorList& inputs, TensorList& saved) override {
    TensorList outputs;
    saved = {inputs[0]};
    products_ = inputs.size() / 2;
    x_remade_ = remade_by(inputs[0]);
    for (std::size_t i = 1; i < inputs.size(); i += 2) {
      outputs.push_back(at::linear(inputs[0], inputs[i], inputs[i + 1]));
      saved.push_back(inputs[i]);
    }
    outputs.push_back(inputs[0]);
    return outputs;
  }
  int remakes(std::size_t output) const override { return output == products_ ? x_remade_ : 0; }
  at::Tensor remake(std::size_t, const TensorList& saved) override { return saved[0]; }
  TensorList backward(const TensorList& grads, const TensorList& saved, const std::vector<bool>& needs) override {
    TensorList result(needs.size());
    const at::Tensor rows = saved[0].reshape({-1, saved[0].size(-1)});
    at::Tensor dx;
    if (grads.back().defined()) dx = grads.back().reshape(rows.sizes());
    bool own = false;  // dx may be overwritten
    for (std::size_t i = 0; i + 1 < grads.size(); ++i) {
      if (!grads[i].defined()) continue;
      const at::Tensor& weight = saved[i + 1];
      const at::Tensor dy = grads[i].reshape({-1, weight.size(0)});
      if (needs[0]) {
        if (own) {
          dx.addmm_(dy, weight);
        } else {
          dx = dx.defined() ? at::addmm(dx, dy, weight) : at::mm(dy, weight);
        }
        own = true;
      }
      if (needs[2 * i + 1]) result[2 * i + 1] = at::mm(dy.t(), rows);
      if (needs[2 * i + 2]) result[2 * i + 2] = dy.sum(0);
    }
    if (needs[0] && dx.defined()) result[0] = dx.view(saved[0].sizes());
    return result;
  }

 private:
  std::size_t products_ = 0;
  int x_remade_ = 0;
};

// The products, then x.
TensorList joined_linear(const at::Tensor& x, std::span<const LinearWeight> weights) {
  TensorList inputs = {x};
  for (const LinearWeight& w : weights) {
    inputs.push_back(w.dense);
    inputs.push_back(w.bias);
  }
  return apply_op(std::make_shared<JoinedLinearOp>(), inputs);
}

bool records(const at::Tensor& x, std::span<const LinearWeight> weights) {
  const auto wants = [](const at::Tensor& t) { return t.defined() && t.requires_grad(); };
  return at::GradMode::is_enabled() &&
         (wants(x) || std::any_of(weights.begin(), weights.end(),
                                  [&](const LinearWeight& w) { return wants(w.dense) || wants(w.bias); }));
}

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
  // libtorch's own product would keep x.
  if (!packed && remade_by(x) > 0 && path_for(x) != Path::reference) {
    results = joined_linear(x, weights);
    results.pop_back();
    return results;
  }
  for (const LinearWeight& w : weights) {
    results.push_back(w.packed ? cpu::linear_many_rows(x, w) : at::linear(x, w.dense, w.bias));
  }
  return results;
}

TensorList linear_each_through(at::Tensor& x, std::span<const LinearWeight> weights) {
  const bool joined = weights.size() > 1 && path_for(x) != Path::reference && records(x, weights) &&
                      std::none_of(weights.begin(), weights.end(), [](const LinearWeight& w) { return w.packed; });
  if (!joined) return linear_each(x, weights);
  TensorList results = joined_linear(x, weights);
  x = results.back();
  results.pop_back();
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
