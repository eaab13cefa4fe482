// The norm before a sublayer and at the end: RMS, or LayerNorm where the config says so.
//   layer: y = (x - mean) / sqrt(variance + eps) * weight + bias, in fp32 and cast back
#pragma once

#include <string>

#include "kernels/rms_norm/rms_norm.h"
#include "nn/model_config.h"
#include "nn/parameters.h"

namespace satformer {

class Norm {
 public:
  // Adds NAME.weight and, for LayerNorm, NAME.bias.
  Norm(const ModelConfig& config, const std::string& name, ParameterStore& store);
  // The norm of that name that a model has.
  static Norm of_model(const ModelConfig& config, const std::string& name, const ParameterStore& store);

  at::Tensor operator()(const at::Tensor& x) const;
  // Of x + residual, and that sum.
  AddNorm add(const at::Tensor& x, const at::Tensor& residual) const;
  bool rms() const { return !bias_.defined(); }
  const at::Tensor& weight() const { return weight_; }

 private:
  Norm(double eps, at::Tensor weight, at::Tensor bias) : eps_(eps), weight_(weight), bias_(bias) {}

  double eps_;
  at::Tensor weight_, bias_;  // bias undefined: RMS
};

}  // namespace satformer
