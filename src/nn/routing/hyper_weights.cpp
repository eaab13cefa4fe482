#include "nn/routing/hyper_weights.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/exp.h>
#include <ATen/ops/layer_norm.h>
#include <ATen/ops/logsumexp.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/sigmoid.h>
#include <ATen/ops/tanh.h>

#include <cmath>
#include <limits>

#include "kernels/linear/linear.h"
#include "kernels/rms_norm/rms_norm.h"

namespace satformer {
namespace {

constexpr int sinkhorn_iterations = 20;
constexpr double layer_norm_eps = 1e-5, smallest_norm = 1e-12;

at::Tensor normed(const at::Tensor& x, const HyperConnectionParams& p, const std::string& norm) {
  const std::int64_t C = x.size(-1);
  if (norm == "layer" || norm == "layer_plain")
    return at::layer_norm(x, {C}, p.norm_weight, p.norm_bias, layer_norm_eps);
  if (norm == "rms") return rms_norm(x, p.norm_weight, std::numeric_limits<float>::epsilon());
  const at::Tensor length = x.norm(2, {-1}, true).clamp_min(smallest_norm);
  return x / length * std::sqrt(static_cast<double>(C)) * (p.norm_weight + 1.0);
}

HyperRead hyper_read_together(const at::Tensor& streams_BTnD, const HyperConnectionParams& p,
                              const HyperVariant& variant) {
  const at::Tensor streams = streams_BTnD.to(at::kFloat);
  HyperRead read;
  read.alpha = p.static_alpha;
  read.beta = p.static_beta;
  if (p.dynamic_alpha_proj.defined()) {
    const at::Tensor x = normed(streams, p, variant.norm);
    at::Tensor alpha = at::matmul(x, p.dynamic_alpha_proj), beta = at::matmul(x, p.dynamic_beta_proj);
    if (p.use_tanh) {
      alpha = at::tanh(alpha);
      beta = at::tanh(beta);
    }
    read.alpha = alpha * p.dynamic_alpha_scale + read.alpha;
    read.beta = beta * p.dynamic_beta_scale + read.beta;
  }
  if (variant.manifold) {
    const std::int64_t n = streams.size(2);
    const at::Tensor pre = at::sigmoid(read.alpha.narrow(-1, 0, 1));
    read.alpha = at::cat({pre, sinkhorn(read.alpha.narrow(-1, 1, n), sinkhorn_iterations)}, -1);
    read.beta = at::sigmoid(read.beta) * 2.0;
  }
  read.input_BTD = (read.alpha.select(-1, 0).unsqueeze(-1) * streams).sum(-2).to(streams_BTnD.scalar_type());
  return read;
}

}  // namespace

at::Tensor sinkhorn(const at::Tensor& logits, int iterations) {
  at::Tensor log_mix = logits;
  for (int i = 0; i < iterations; ++i) {
    log_mix = log_mix - at::logsumexp(log_mix, {-1}, true);
    log_mix = log_mix - at::logsumexp(log_mix, {-2}, true);
  }
  return at::exp(log_mix);
}

HyperRead hyper_read_variant(const at::Tensor& streams_BTnD, const HyperConnectionParams& p,
                             const HyperVariant& variant) {
  const at::Tensor streams_BTC = streams_BTnD.flatten(2);
  const std::int64_t B = streams_BTnD.size(0), T = streams_BTnD.size(1);
  if (!few_rows(streams_BTC) || B * T == 1) return hyper_read_together(streams_BTnD, p, variant);
  // Token by token, so that each has the bits that it has alone.
  HyperRead read;
  std::vector<at::Tensor> inputs, alphas, betas;
  for (std::int64_t i = 0; i < B * T; ++i) {
    read = hyper_read_together(streams_BTnD.narrow(0, i / T, 1).narrow(1, i % T, 1), p, variant);
    inputs.push_back(read.input_BTD);
    alphas.push_back(read.alpha);
    betas.push_back(read.beta);
  }
  const auto joined = [&](const std::vector<at::Tensor>& tokens) {
    std::vector<std::int64_t> shape = tokens[0].sizes().vec();
    shape[0] = B;
    shape[1] = T;
    return at::cat(tokens).view(shape);
  };
  const bool dynamic = p.dynamic_alpha_proj.defined();  // otherwise the weights are no token's
  return {joined(inputs), dynamic ? joined(alphas) : read.alpha, dynamic ? joined(betas) : read.beta};
}

}  // namespace satformer
