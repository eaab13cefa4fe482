#include "probe/gate_statistics.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/maximum.h>

#include <algorithm>
#include <cmath>

namespace satformer {

double saturation_level(const ModelConfig& config) {
  const std::string& gate = config.value_residual_gate;
  if (gate == "sigmoid" || gate == "tanh") return 0.99;
  if (gate == "softmax" || gate == "softmax_sigmoid") return 0.99 * static_cast<double>(config.kv_heads());
  return 1;
}

at::Tensor GateStatistics::source_gate(std::int64_t layer, std::int64_t source, const at::Tensor& alpha_BTH) {
  at::NoGradGuard no_grad;
  const at::Tensor a = alpha_BTH.detach().to(at::kDouble).flatten(0, 1);
  Sums& s = sums_[{layer, source}];
  const at::Tensor sum = a.sum({0}), square = a.square().sum({0}), zeros = a.eq(0).sum({0}, false, at::kDouble);
  const at::Tensor saturated = a.abs().ge(saturation_).sum({0}, false, at::kDouble);
  const at::Tensor max = a.amax({0});
  if (s.tokens == 0) {
    s.sum_H = sum.cpu();
    s.square_H = square.cpu();
    s.zeros_H = zeros.cpu();
    s.saturated_H = saturated.cpu();
    s.max_H = max.cpu();
  } else {
    s.sum_H += sum.cpu();
    s.square_H += square.cpu();
    s.zeros_H += zeros.cpu();
    s.saturated_H += saturated.cpu();
    s.max_H = at::maximum(s.max_H, max.cpu());
  }
  s.tokens += a.size(0);
  return alpha_BTH;
}

std::vector<std::int64_t> GateStatistics::layers() const {
  std::vector<std::int64_t> list;
  for (const auto& [key, sums] : sums_) {
    if (list.empty() || list.back() != key.first) list.push_back(key.first);
  }
  return list;
}

std::vector<std::int64_t> GateStatistics::sources(std::int64_t layer) const {
  std::vector<std::int64_t> list;
  for (const auto& [key, sums] : sums_) {
    if (key.first == layer) list.push_back(key.second);
  }
  return list;
}

std::int64_t GateStatistics::tokens() const { return sums_.empty() ? 0 : sums_.begin()->second.tokens; }

std::vector<HeadGates> GateStatistics::heads(std::int64_t layer, std::int64_t source) const {
  std::vector<HeadGates> result;
  const Sums& s = sums_.at({layer, source});
  const auto n = static_cast<double>(s.tokens);
  for (std::int64_t h = 0; h < s.sum_H.size(0); ++h) {
    HeadGates g;
    g.mean = s.sum_H[h].item<double>() / n;
    g.zero_share = s.zeros_H[h].item<double>() / n;
    g.saturated_share = s.saturated_H[h].item<double>() / n;
    g.max = s.max_H[h].item<double>();
    g.std_dev = std::sqrt(std::max(0.0, s.square_H[h].item<double>() / n - g.mean * g.mean));
    result.push_back(g);
  }
  return result;
}

HeadGates GateStatistics::layer(std::int64_t layer, std::int64_t source) const {
  const std::vector<HeadGates> all = heads(layer, source);
  HeadGates g;
  double square = 0;
  g.max = all.front().max;
  for (const HeadGates& h : all) {
    g.mean += h.mean / static_cast<double>(all.size());
    g.zero_share += h.zero_share / static_cast<double>(all.size());
    g.saturated_share += h.saturated_share / static_cast<double>(all.size());
    g.max = std::max(g.max, h.max);
    square += (h.std_dev * h.std_dev + h.mean * h.mean) / static_cast<double>(all.size());
  }
  g.std_dev = std::sqrt(std::max(0.0, square - g.mean * g.mean));
  return g;
}

}  // namespace satformer
