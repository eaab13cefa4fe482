#include "probe/weight_edits.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/softmax.h>
#include <ATen/ops/zeros_like.h>

#include <algorithm>

#include "base/error.h"

namespace satformer {
namespace {

constexpr const char* lambda_scale = "model.lambda_manager.lambda_scale";
constexpr const char* lambda_logits = "model.lambda_manager.lambda_logits";

at::Tensor value_of(const Model& model, const std::string& name) {
  const Parameter* parameter = model.parameters().find(name);
  if (!parameter) fail(ExitCode::internal, "an intervention needs the parameter '", name, "'");
  return parameter->value;
}

}  // namespace

at::Tensor resformer_lambda1(const Model& model) {
  at::NoGradGuard no_grad;
  return value_of(model, lambda_scale).to(at::kCPU, at::kDouble) *
         at::softmax(value_of(model, lambda_logits).to(at::kCPU, at::kDouble), 0);
}

WeightEdits::WeightEdits(Model& model, const Intervention& intervention) {
  at::NoGradGuard no_grad;
  const EditSpace space = edit_space(model, {});
  for (const Edit& edit : intervention.edits) {
    if (edits_gates(edit.operation)) continue;
    const std::vector<std::int64_t>& layers =
        edit.layers.empty() ? editable_layers(space, edit.operation) : edit.layers;
    if (edit.operation == EditOperation::lambda1_zero || edit.operation == EditOperation::lambda1_mean) {
      edit_lambdas(model, edit, layers);
      continue;
    }
    for (const std::int64_t layer : layers) {
      if (edit.operation == EditOperation::dense_own) {
        at::Tensor weights = edited(model, concat("model.dwa_modules.alphas.", layer, ".weight"));
        weights.zero_();
        weights.select(1, weights.size(1) - 1).fill_(1);
      } else if (edit.operation == EditOperation::mudd_static) {
        edited(model, concat("model.layers.", layer, ".da.w2.weight")).zero_();
      } else {
        for (const char* name : {"attn_hc", "mlp_hc"}) {
          const std::string prefix = concat("model.layers.", layer, ".", name, ".dynamic_");
          edited(model, prefix + "alpha_scale").zero_();
          edited(model, prefix + "beta_scale").zero_();
        }
      }
    }
  }
}

WeightEdits::~WeightEdits() {
  at::NoGradGuard no_grad;
  for (auto& [parameter, value] : kept_) parameter.copy_(value);
}

at::Tensor WeightEdits::edited(Model& model, const std::string& name) {
  const at::Tensor parameter = value_of(model, name);
  const bool known =
      std::any_of(kept_.begin(), kept_.end(), [&](const auto& k) { return k.first.is_same(parameter); });
  if (!known) kept_.emplace_back(parameter, parameter.detach().clone());
  return parameter;
}

// The weights wanted, as a scale and a softmax.
void WeightEdits::edit_lambdas(Model& model, const Edit& edit, const std::vector<std::int64_t>& layers) {
  const at::Tensor wanted = resformer_lambda1(model);
  double mean = 0;
  for (const std::int64_t layer : layers) {
    mean += wanted[layer - 1].item<double>() / static_cast<double>(layers.size());
  }
  for (const std::int64_t layer : layers)
    wanted[layer - 1].fill_(edit.operation == EditOperation::lambda1_mean ? mean : 0);
  const at::Tensor scale = edited(model, lambda_scale), logits = edited(model, lambda_logits);
  const double sum = wanted.sum().item<double>();
  scale.fill_(sum);
  if (sum == 0) {
    logits.zero_();
  } else {
    // exp(-1e30) is exactly zero.
    logits.copy_((wanted / sum).log().clamp_min(-1e30));
  }
}

}  // namespace satformer
