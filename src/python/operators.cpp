// torch.ops.satformer.*: the kernels as operators of PyTorch, differentiable as in the program.
#include <torch/library.h>

#include "kernels/attention/attention.h"
#include "kernels/dense_average/dense_average.h"
#include "kernels/depth_aggregate/depth_aggregate.h"
#include "kernels/hyper_connection/hyper_connection.h"
#include "kernels/linear_cross_entropy/linear_cross_entropy.h"
#include "kernels/qk_norm_rope/qk_norm_rope.h"
#include "kernels/rms_norm/rms_norm.h"
#include "kernels/swiglu/swiglu.h"
#include "kernels/value_gate/value_gate.h"

namespace satformer {
namespace {

using OptionalTensor = std::optional<at::Tensor>;

at::Tensor or_undefined(const OptionalTensor& tensor) { return tensor.value_or(at::Tensor()); }

HyperConnectionParams hyper_params(const at::Tensor& static_alpha, const at::Tensor& static_beta,
                                   const OptionalTensor& alpha_proj, const OptionalTensor& beta_proj,
                                   const OptionalTensor& alpha_scale, const OptionalTensor& beta_scale,
                                   const OptionalTensor& norm_weight, const OptionalTensor& norm_bias,
                                   bool use_tanh) {
  HyperConnectionParams params;
  params.static_alpha = static_alpha;
  params.static_beta = static_beta;
  params.dynamic_alpha_proj = or_undefined(alpha_proj);
  params.dynamic_beta_proj = or_undefined(beta_proj);
  params.dynamic_alpha_scale = or_undefined(alpha_scale);
  params.dynamic_beta_scale = or_undefined(beta_scale);
  params.norm_weight = or_undefined(norm_weight);
  params.norm_bias = or_undefined(norm_bias);
  params.use_tanh = use_tanh;
  return params;
}

}  // namespace

TORCH_LIBRARY(satformer, m) {
  m.def("rms_norm(Tensor x, Tensor? weight, float eps=1e-6) -> Tensor",
        [](const at::Tensor& x, const OptionalTensor& weight, double eps) {
          return rms_norm(x, or_undefined(weight), eps);
        });
  m.def("add_rms_norm(Tensor x, Tensor residual, Tensor? weight, float eps=1e-6) -> (Tensor, Tensor)",
        [](const at::Tensor& x, const at::Tensor& residual, const OptionalTensor& weight, double eps) {
          const AddNorm result = add_rms_norm(x, residual, or_undefined(weight), eps);
          return std::make_tuple(result.normed, result.sum);
        });
  m.def("swiglu(Tensor gate, Tensor up) -> Tensor",
        [](const at::Tensor& gate, const at::Tensor& up) { return swiglu(gate, up); });
  m.def("gated_mlp(Tensor x, Tensor w_gate, Tensor w_up, Tensor w_down) -> Tensor",
        [](const at::Tensor& x, const at::Tensor& w_gate, const at::Tensor& w_up, const at::Tensor& w_down) {
          return gated_mlp(x, w_gate, w_up, w_down);
        });
  m.def("rope_table(int positions, int head_dim, float theta=10000.0, Device? device=None) -> (Tensor, Tensor)",
        [](std::int64_t positions, std::int64_t head_dim, double theta, std::optional<at::Device> device) {
          const RopeTable table = make_rope_table(positions, head_dim, theta, device.value_or(at::Device(at::kCPU)));
          return std::make_tuple(table.cos_PD, table.sin_PD);
        });
  m.def("qk_norm_rope(Tensor x, Tensor? weight, float eps, Tensor cos, Tensor sin, Tensor? positions=None) -> Tensor",
        [](const at::Tensor& x, const OptionalTensor& weight, double eps, const at::Tensor& cos,
           const at::Tensor& sin, const OptionalTensor& positions) {
          return qk_norm_rope(x, or_undefined(weight), eps, {cos, sin}, or_undefined(positions));
        });
  m.def(
      "attention(Tensor q, Tensor k, Tensor v, bool causal=True, int? window=None, Tensor? key_valid=None, Tensor? "
      "document=None) -> Tensor",
      [](const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, bool causal,
         std::optional<std::int64_t> window, const OptionalTensor& key_valid, const OptionalTensor& document) {
        AttentionMask mask;
        mask.kind = causal ? MaskKind::causal : MaskKind::bidirectional;
        mask.window = window;
        mask.key_valid_BS = or_undefined(key_valid);
        mask.document_BT = or_undefined(document);
        return attention(q, k, v, mask);
      });
  m.def("value_gate(Tensor v, Tensor v1, Tensor logits, str gate=\"relu\") -> Tensor",
        [](const at::Tensor& v, const at::Tensor& v1, const at::Tensor& logits, std::string_view gate) {
          return value_gate(v, v1, logits, gate_from_name(std::string(gate)));
        });
  m.def("gated_value_mix(Tensor v, Tensor v1, Tensor alpha) -> Tensor",
        [](const at::Tensor& v, const at::Tensor& v1, const at::Tensor& alpha) {
          return gated_value_mix(v, v1, alpha);
        });
  m.def("static_value_mix(Tensor v, Tensor v1, Tensor lambda1, Tensor lambda2) -> Tensor",
        [](const at::Tensor& v, const at::Tensor& v1, const at::Tensor& lambda1, const at::Tensor& lambda2) {
          return static_value_mix(v, v1, lambda1, lambda2);
        });
  m.def("dense_average(Tensor[] states, Tensor weights) -> Tensor",
        [](const std::vector<at::Tensor>& states, const at::Tensor& weights) {
          return dense_average(states, weights);
        });
  m.def(
      "depth_aggregate(Tensor[] states, Tensor weights, Tensor[] pre_norms, Tensor[] post_norms, float eps=1e-6) "
      "-> Tensor[]",
      [](const std::vector<at::Tensor>& states, const at::Tensor& weights, const std::vector<at::Tensor>& pre,
         const std::vector<at::Tensor>& post, double eps) {
        return depth_aggregate(states, weights, {pre, post, eps});
      });
  m.def(
      "hyper_read(Tensor streams, Tensor static_alpha, Tensor static_beta, Tensor? alpha_proj=None, Tensor? "
      "beta_proj=None, Tensor? alpha_scale=None, Tensor? beta_scale=None, Tensor? norm_weight=None, Tensor? "
      "norm_bias=None, bool use_tanh=True) -> (Tensor, Tensor, Tensor)",
      [](const at::Tensor& streams, const at::Tensor& static_alpha, const at::Tensor& static_beta,
         const OptionalTensor& alpha_proj, const OptionalTensor& beta_proj, const OptionalTensor& alpha_scale,
         const OptionalTensor& beta_scale, const OptionalTensor& norm_weight, const OptionalTensor& norm_bias,
         bool use_tanh) {
        const HyperRead read =
            hyper_read(streams, hyper_params(static_alpha, static_beta, alpha_proj, beta_proj, alpha_scale,
                                             beta_scale, norm_weight, norm_bias, use_tanh));
        return std::make_tuple(read.input_BTD, read.alpha, read.beta);
      });
  m.def("hyper_write(Tensor streams, Tensor alpha, Tensor beta, Tensor output) -> Tensor",
        [](const at::Tensor& streams, const at::Tensor& alpha, const at::Tensor& beta, const at::Tensor& output) {
          return hyper_write(streams, {at::Tensor(), alpha, beta}, output);
        });
  m.def("linear_cross_entropy(Tensor hidden, Tensor weight, Tensor targets, float scale=1.0) -> Tensor",
        [](const at::Tensor& hidden, const at::Tensor& weight, const at::Tensor& targets, double scale) {
          return linear_cross_entropy(hidden, weight, targets, scale);
        });
}

}  // namespace satformer
