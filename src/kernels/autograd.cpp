#include "kernels/autograd.h"

#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/custom_function.h>

#include <unordered_map>
#include <utility>

#include "base/error.h"

namespace satformer {

at::Tensor DifferentiableOp::remake(std::size_t output, const TensorList&) {
  fail(ExitCode::internal, "output ", output, " of an operation cannot be made again");
}

namespace {

namespace ag = torch::autograd;
using NodePointer = std::decay_t<decltype(std::declval<const at::Tensor&>().grad_fn())>;

// A call without its undefined inputs, which torch's Function does not take.
struct OpCall : torch::CustomClassHolder {
  std::shared_ptr<DifferentiableOp> op;
  std::vector<bool> present;
  // Saved tensors that another call makes again. It still holds what it saved: its own backward comes later.
  struct Remade {
    std::size_t saved, output;
    NodePointer maker;
  };
  std::vector<Remade> remade;
  // Own outputs that were made again, until the own backward.
  std::unordered_map<std::size_t, at::Tensor> made;

  // One tensor per input from one per present input.
  TensorList spread(const TensorList& packed) const {
    TensorList all(present.size());
    std::size_t next = 0;
    for (std::size_t i = 0; i < present.size(); ++i) {
      if (present[i]) all[i] = packed[next++];
    }
    return all;
  }
};

struct OpFunction;
OpCall& call_of(const ag::AutogradContext& context);
const ag::AutogradContext* context_of(const NodePointer& node);
// All of what the call saved.
TensorList saved_of(const ag::AutogradContext& context);

struct OpFunction : ag::Function<OpFunction> {
  static ag::variable_list forward(ag::AutogradContext* ctx, const c10::intrusive_ptr<OpCall>& call,
                                   at::TensorList inputs) {
    TensorList saved;
    TensorList outputs = call->op->forward(call->spread(inputs.vec()), saved);
    for (std::size_t i = 0; i < saved.size(); ++i) {
      if (remade_by(saved[i]) == 0) continue;
      call->remade.push_back({i, static_cast<std::size_t>(saved[i].output_nr()), saved[i].grad_fn()});
      saved[i].reset();
    }
    ctx->save_for_backward(std::move(saved));
    ctx->saved_data["call"] = c10::IValue::make_capsule(call);
    ctx->set_materialize_grads(false);
    return outputs;
  }
  static ag::variable_list backward(ag::AutogradContext* ctx, ag::variable_list grads) {
    OpCall& call = call_of(*ctx);
    const std::size_t count = call.present.size();
    std::vector<bool> needs(count);
    std::size_t next = 0;
    for (std::size_t i = 0; i < count; ++i) needs[i] = call.present[i] && ctx->needs_input_grad(next++);
    TensorList result = call.op->backward(grads, saved_of(*ctx), needs);
    call.made.clear();
    ag::variable_list packed(1);  // nothing for the call itself
    for (std::size_t i = 0; i < count; ++i) {
      if (call.present[i]) packed.push_back(std::move(result[i]));
    }
    return packed;
  }
};

OpCall& call_of(const ag::AutogradContext& context) {
  return *static_cast<OpCall*>(context.saved_data.at("call").toCapsule().get());
}

const ag::AutogradContext* context_of(const NodePointer& node) {
  const auto* own = dynamic_cast<const ag::CppNode<OpFunction>*>(node.get());
  return own ? &own->ctx_ : nullptr;
}

TensorList saved_of(const ag::AutogradContext& context) {
  TensorList saved = context.get_saved_variables();
  for (const OpCall::Remade& r : call_of(context).remade) {
    const ag::AutogradContext& context_of_maker = *context_of(r.maker);
    OpCall& maker = call_of(context_of_maker);
    at::Tensor& made = maker.made[r.output];
    if (!made.defined()) made = maker.op->remake(r.output, saved_of(context_of_maker));
    saved[r.saved] = made;
  }
  return saved;
}

}  // namespace

int remade_by(const at::Tensor& x) {
  if (!x.defined() || !x.requires_grad()) return 0;
  const ag::AutogradContext* maker = context_of(x.grad_fn());
  return maker ? call_of(*maker).op->remakes(static_cast<std::size_t>(x.output_nr())) : 0;
}

TensorList apply_op(std::shared_ptr<DifferentiableOp> op, const TensorList& inputs) {
  bool record = false;
  if (at::GradMode::is_enabled()) {
    for (const auto& t : inputs) record = record || (t.defined() && t.requires_grad());
  }
  if (!record) {
    TensorList saved;
    return op->forward(inputs, saved);
  }
  const auto call = c10::make_intrusive<OpCall>();
  call->op = std::move(op);
  TensorList packed;
  for (const auto& t : inputs) {
    call->present.push_back(t.defined());
    if (t.defined()) packed.push_back(t);
  }
  return OpFunction::apply(call, at::TensorList(packed));
}

namespace {

thread_local int first_passes = 0;
struct FirstPass {
  FirstPass() { ++first_passes; }
  ~FirstPass() { --first_passes; }
};

class RecomputeOp : public DifferentiableOp {
 public:
  explicit RecomputeOp(std::function<TensorList(const TensorList&)> body) : body_(std::move(body)) {}
  TensorList forward(const TensorList& inputs, TensorList& saved) override {
    saved = inputs;
    const at::NoGradGuard no_grad;
    const FirstPass mark;
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

bool has_backward() { return at::GradMode::is_enabled() || first_passes > 0; }

TensorList recompute(std::function<TensorList(const TensorList&)> body, const TensorList& inputs) {
  bool any = false;
  for (const auto& t : inputs) any = any || (t.defined() && t.requires_grad());
  if (!at::GradMode::is_enabled() || !any) return body(inputs);
  return apply_op(std::make_shared<RecomputeOp>(std::move(body)), inputs);
}

}  // namespace satformer
