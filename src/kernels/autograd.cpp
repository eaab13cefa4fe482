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
    ctx->saved_data["op"] = c10::make_intrusive<OpHolder>(op);
    ctx->saved_data["inputs"] = static_cast<std::int64_t>(inputs.size());
    ctx->set_materialize_grads(false);
    return outputs;
  }
  static ag::variable_list backward(ag::AutogradContext* ctx, ag::variable_list grads) {
    const auto op = ctx->saved_data["op"].toCustomClass<OpHolder>()->op;
    const auto count = static_cast<std::size_t>(ctx->saved_data["inputs"].toInt());
    std::vector<bool> needs(count);
    for (std::size_t i = 0; i < count; ++i) needs[i] = ctx->needs_input_grad(i);
    TensorList result = op->backward(grads, ctx->get_saved_variables(), needs);
    result.insert(result.begin(), at::Tensor());  // the op argument
    return result;
  }
};

// Autograd takes no undefined tensor as an input: an operation called with some is shown the defined ones alone.
class DefinedInputs : public DifferentiableOp {
 public:
  DefinedInputs(std::shared_ptr<DifferentiableOp> op, const TensorList& inputs)
      : op_(std::move(op)), count_(inputs.size()) {
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      if (inputs[i].defined()) positions_.push_back(i);
    }
  }
  TensorList defined(const TensorList& inputs) const {
    TensorList list;
    for (const std::size_t position : positions_) list.push_back(inputs[position]);
    return list;
  }
  TensorList forward(const TensorList& inputs, TensorList& saved) override {
    TensorList all(count_);
    for (std::size_t i = 0; i < positions_.size(); ++i) all[positions_[i]] = inputs[i];
    return op_->forward(all, saved);
  }
  TensorList backward(const TensorList& grads, const TensorList& saved, const std::vector<bool>& needs) override {
    std::vector<bool> all(count_, false);
    for (std::size_t i = 0; i < positions_.size(); ++i) all[positions_[i]] = needs[i];
    return defined(op_->backward(grads, saved, all));
  }

 private:
  std::shared_ptr<DifferentiableOp> op_;
  std::size_t count_;
  std::vector<std::size_t> positions_;
};

}  // namespace

TensorList apply_op(std::shared_ptr<DifferentiableOp> op, const TensorList& inputs) {
  bool record = false, undefined = false;
  for (const auto& t : inputs) {
    record = record || (at::GradMode::is_enabled() && t.defined() && t.requires_grad());
    undefined = undefined || !t.defined();
  }
  if (!record) {
    TensorList saved;
    return op->forward(inputs, saved);
  }
  if (undefined) {
    const auto adapted = std::make_shared<DefinedInputs>(std::move(op), inputs);
    const TensorList given = adapted->defined(inputs);
    return OpFunction::apply(std::shared_ptr<DifferentiableOp>(adapted), at::TensorList(given));
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
