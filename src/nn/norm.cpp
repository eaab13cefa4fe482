#include "nn/norm.h"

#include <ATen/ops/layer_norm.h>

#include "base/error.h"

namespace satformer {
namespace {

at::Tensor layer_norm(const at::Tensor& x_fp32, const at::Tensor& weight, const at::Tensor& bias, double eps) {
  return at::layer_norm(x_fp32, {x_fp32.size(-1)}, weight.to(at::kFloat), bias.to(at::kFloat), eps);
}

}  // namespace

Norm::Norm(const ModelConfig& config, const std::string& name, ParameterStore& store) : eps_(config.norm_eps) {
  weight_ = store.add(name + ".weight", {config.hidden_size}, Init::constant(1), ParamKind::norm, "norm");
  if (config.norm_type == "layer") {
    bias_ = store.add(name + ".bias", {config.hidden_size}, Init::constant(0), ParamKind::bias, "norm");
  }
}

Norm Norm::of_model(const ModelConfig& config, const std::string& name, const ParameterStore& store) {
  const auto parameter = [&](const char* part) {
    const Parameter* p = store.find(name + part);
    return p ? p->value.detach() : at::Tensor();
  };
  const at::Tensor weight = parameter(".weight");
  if (!weight.defined()) fail(ExitCode::internal, "the model has no norm '", name, "'");
  return {config.norm_eps, weight, parameter(".bias")};
}

at::Tensor Norm::operator()(const at::Tensor& x) const {
  if (!bias_.defined()) return rms_norm(x, weight_, eps_);
  return layer_norm(x.to(at::kFloat), weight_, bias_, eps_).to(x.scalar_type());
}

AddNorm Norm::add(const at::Tensor& x, const at::Tensor& residual) const {
  if (!bias_.defined()) return add_rms_norm(x, residual, weight_, eps_);
  const at::Tensor sum = x.to(at::kFloat) + residual.to(at::kFloat);
  return {layer_norm(sum, weight_, bias_, eps_).to(x.scalar_type()), sum.to(x.scalar_type())};
}

}  // namespace satformer
