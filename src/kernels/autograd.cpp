#include "kernels/autograd.h"

#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/custom_function.h>

namespace satformer {
namespace {

namespace ag = torch::autograd;

struct OpHolder : torch::CustomClassHolder {
  explicit OpHolder(std::shared_ptr<DifferentiableOp> o) : op(std::move(o)) {}
  std::shared_ptr<DifferentiableOp> op;
};

struct OpFunction : ag::Function<OpFunction> {
  static ag::variable_list forward(ag::AutogradContext* ctx, const std::shared_ptr<DifferentiableOp>& op,
                                   at::TensorList inputs) {
    TensorList saved;
    TensorList outputs = op->forward(inputs.vec(), saved);
    ctx->save_for_backward(std::move(saved));
    ctx->saved_data["op"] = c10::IValue::make_capsule(c10::make_intrusive<OpHolder>(op));
    ctx->saved_data["inputs"] = static_cast<std::int64_t>(inputs.size());
    ctx->set_materialize_grads(false);
    return outputs;
  }
  static ag::variable_list backward(ag::AutogradContext* ctx, ag::variable_list grads) {
    const auto op = c10::static_intrusive_pointer_cast<OpHolder>(ctx->saved_data["op"].toCapsule())->op;
    const auto count = static_cast<std::size_t>(ctx->saved_data["inputs"].toInt());
    std::vector<bool> needs(count);
    for (std::size_t i = 0; i < count; ++i) needs[i] = ctx->needs_input_grad(i);
    TensorList result = op->backward(grads, ctx->get_saved_variables(), needs);
    result.insert(result.begin(), at::Tensor());  // the op argument
    return result;
  }
};

}  // namespace

TensorList apply_op(std::shared_ptr<DifferentiableOp> op, const TensorList& inputs) {
  bool record = false;
  if (at::GradMode::is_enabled()) {
    for (const auto& t : inputs) record = record || (t.defined() && t.requires_grad());
  }
  if (!record) {
    TensorList saved;
    return op->forward(inputs, saved);
  }
  return OpFunction::apply(op, at::TensorList(inputs));
}

namespace {

class RecomputeOp : public DifferentiableOp {
 public:
  explicit RecomputeOp(std::function<TensorList(const TensorList&)> body) : body_(std::move(body)) {}
  TensorList forward(const TensorList& inputs, TensorList& saved) override {
    saved = inputs;
    at::NoGradGuard no_grad;
    return body_(inputs);
  }
  TensorList backward(const TensorList& grads, const TensorList& saved, const std::vector<bool>& needs) override {
    at::AutoGradMode record(true);
    TensorList inputs(saved.size());
    for (std::size_t i = 0; i < saved.size(); ++i) {
      if (saved[i].defined()) inputs[i] = saved[i].detach().set_requires_grad(needs[i]);
    }
    const TensorList outputs = body_(inputs);
    TensorList roots, root_grads;
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      if (grads[i].defined() && outputs[i].requires_grad()) {
        roots.push_back(outputs[i]);
        root_grads.push_back(grads[i]);
      }
    }
    if (!roots.empty()) ag::backward(roots, root_grads);
    TensorList result(inputs.size());
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      if (inputs[i].defined() && needs[i]) result[i] = inputs[i].grad();
    }
    return result;
  }

 private:
  std::function<TensorList(const TensorList&)> body_;
};

}  // namespace

TensorList recompute(std::function<TensorList(const TensorList&)> body, const TensorList& inputs) {
  bool any = false;
  for (const auto& t : inputs) any = any || (t.defined() && t.requires_grad());
  if (!at::GradMode::is_enabled() || !any) return body(inputs);
  return apply_op(std::make_shared<RecomputeOp>(std::move(body)), inputs);
}

}  // namespace satformer
