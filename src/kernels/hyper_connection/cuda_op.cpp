
#include <limits>

#include "kernels/gpu/op.h"
#include "kernels/hyper_connection/cuda.h"
#include "kernels/hyper_connection/hyper_connection.h"
#include "kernels/hyper_connection/read_inputs.h"

namespace satformer::gpu {
namespace {

class DynamicReadOp : public DifferentiableOp {
 public:
  explicit DynamicReadOp(bool use_tanh) : use_tanh_(use_tanh) {}

  TensorList forward(const TensorList& inputs, TensorList& saved) override {
    const at::Tensor& x = inputs[streams_];
    const std::int64_t B = x.size(0), T = x.size(1), n = x.size(2), D = x.size(3);
    const auto fp32 = x.options().dtype(at::kFloat);
    const at::Tensor input = at::empty({B, T, D}, x.options()), alpha = at::empty({B, T, n, n + 1}, fp32),
                     beta = at::empty({B, T, n}, fp32), stats = at::empty({B, T, n, n + 4}, fp32);
    const Call call(x);
    const Projection proj = projection(inputs);
    const at::Tensor static_alpha = dense_fp32(inputs[static_alpha_]), static_beta = dense_fp32(inputs[static_beta_]),
                     scale_alpha = dense_fp32(inputs[alpha_scale_]), scale_beta = dense_fp32(inputs[beta_scale_]);
    with_element(x.scalar_type(), [&](auto element) {
      using E = decltype(element);
      const bool layer = inputs[norm_bias_].defined();
      hyper_read(call.where(), HyperRead<E>{.streams = in<E>(x),
                                            .proj = in<float>(proj.folded),
                                            .proj_bias = in<float>(proj.bias),
                                            .static_alpha = in<float>(static_alpha),
                                            .static_beta = in<float>(static_beta),
                                            .scale_alpha = in<float>(scale_alpha),
                                            .scale_beta = in<float>(scale_beta),
                                            .eps = layer ? 1e-5f : std::numeric_limits<float>::epsilon(),
                                            .use_tanh = use_tanh_,
                                            .layer_norm = layer,
                                            .tokens = B * T,
                                            .streams_count = static_cast<int>(n),
                                            .columns = static_cast<int>(D),
                                            .input = out<E>(input),
                                            .alpha = out<float>(alpha),
                                            .beta = out<float>(beta),
                                            .stats = out<float>(stats)});
    });
    saved = inputs;
    saved.push_back(alpha);
    saved.push_back(stats);
    return {input, alpha, beta};
  }

  TensorList backward(const TensorList& grads, const TensorList& saved, const std::vector<bool>& needs) override {
    TensorList result(read_inputs_);
    if (!grads[0].defined() && !grads[1].defined() && !grads[2].defined()) return result;
    const at::Tensor& x = saved[streams_];
    const at::Tensor &alpha = saved[read_inputs_], &stats = saved[read_inputs_ + 1];
    const std::int64_t tokens = x.size(0) * x.size(1), n = x.size(2), D = x.size(3);
    const Call call(x);
    const at::Tensor dinput = aligned(dense(grads[0], x.scalar_type())), dalpha = dense_fp32(grads[1]),
                     dbeta = dense_fp32(grads[2]);
    const Projection proj = projection(saved);
    const at::Tensor proj_mean = proj.folded.mean(1);
    const bool layer = saved[norm_bias_].defined();
    if (needs[streams_]) result[streams_] = at::empty_like(x);
    bool parameters = false;
    for (std::size_t i = static_alpha_; i < read_inputs_; ++i) parameters = parameters || needs[i];
    const HyperSums layout = hyper_sums(static_cast<int>(n), static_cast<int>(D));
    at::Tensor partial;
    if (parameters) partial = partial_sums(x, partial_blocks, layout.width);
    const at::Tensor scale_alpha = dense_fp32(saved[alpha_scale_]), scale_beta = dense_fp32(saved[beta_scale_]);
    with_element(x.scalar_type(), [&](auto element) {
      using E = decltype(element);
      hyper_read_grad(call.where(), HyperReadGrad<E>{.streams = in<E>(x),
                                                     .proj = in<float>(proj.folded),
                                                     .proj_bias = in<float>(proj.bias),
                                                     .proj_mean = in<float>(proj_mean),
                                                     .alpha = in<float>(alpha),
                                                     .stats = in<float>(stats),
                                                     .scale_alpha = in<float>(scale_alpha),
                                                     .scale_beta = in<float>(scale_beta),
                                                     .use_tanh = use_tanh_,
                                                     .layer_norm = layer,
                                                     .tokens = tokens,
                                                     .streams_count = static_cast<int>(n),
                                                     .columns = static_cast<int>(D),
                                                     .dinput = in<E>(dinput),
                                                     .dalpha = in<float>(dalpha),
                                                     .dbeta = in<float>(dbeta),
                                                     .dstreams = out<E>(result[streams_]),
                                                     .dsums = out<float>(partial)});
    });
    if (!parameters) return result;
    give_parameter_grads(partial.sum(0), proj, saved, needs, result);
    return result;
  }

 private:
  bool use_tanh_;
};

// Inputs: streams, static alpha. Output: what the sublayer reads.
class StaticReadOp : public DifferentiableOp {
 public:
  TensorList forward(const TensorList& inputs, TensorList& saved) override {
    saved = inputs;
    const at::Tensor& x = inputs[0];
    const Call call(x);
    const at::Tensor input = at::empty({x.size(0), x.size(1), x.size(3)}, x.options()), alpha = dense_fp32(inputs[1]);
    with_element(x.scalar_type(), [&](auto element) {
      using E = decltype(element);
      HyperRead<E> args{};
      args.streams = in<E>(x);
      args.static_alpha = in<float>(alpha);
      args.tokens = x.size(0) * x.size(1);
      args.streams_count = static_cast<int>(x.size(2));
      args.columns = static_cast<int>(x.size(3));
      args.input = out<E>(input);
      hyper_read(call.where(), args);
    });
    return {input};
  }
  TensorList backward(const TensorList& grads, const TensorList& saved, const std::vector<bool>& needs) override {
    TensorList result(2);
    if (!grads[0].defined()) return result;
    const at::Tensor& x = saved[0];
    const Call call(x);
    const std::int64_t n = x.size(2);
    const at::Tensor dinput = aligned(dense(grads[0], x.scalar_type())), alpha = dense_fp32(saved[1]);
    if (needs[0]) result[0] = at::empty_like(x);
    at::Tensor partial;
    if (needs[1]) partial = partial_sums(x, partial_blocks, n * (n + 1));
    with_element(x.scalar_type(), [&](auto element) {
      using E = decltype(element);
      HyperReadGrad<E> args{};
      args.streams = in<E>(x);
      args.alpha = in<float>(alpha);
      args.tokens = x.size(0) * x.size(1);
      args.streams_count = static_cast<int>(n);
      args.columns = static_cast<int>(x.size(3));
      args.dinput = in<E>(dinput);
      args.dstreams = out<E>(result[0]);
      args.dsums = out<float>(partial);
      hyper_read_grad(call.where(), args);
    });
    if (needs[1]) result[1] = total_like(partial, saved[1]);
    return result;
  }
};

// Inputs: streams, alpha, beta, output of the sublayer.
class WriteOp : public DifferentiableOp {
 public:
  TensorList forward(const TensorList& inputs, TensorList& saved) override {
    saved = inputs;
    streams_remade_ = remade_by(inputs[0]);
    return {write(inputs)};
  }
  int remakes(std::size_t) const override { return remakes_of_write(streams_remade_); }
  at::Tensor remake(std::size_t, const TensorList& saved) override { return write(saved); }
  TensorList backward(const TensorList& grads, const TensorList& saved, const std::vector<bool>& needs) override {
    TensorList result(4);
    if (!grads[0].defined()) return result;
    const at::Tensor& x = saved[0];
    const Call call(x);
    const std::int64_t n = x.size(2);
    const at::Tensor dy = aligned(dense(grads[0], x.scalar_type())), alpha = dense_fp32(saved[1]),
                     beta = dense_fp32(saved[2]);
    const bool shared = alpha.dim() == 2;
    if (needs[0]) result[0] = at::empty_like(x);
    if (needs[3]) result[3] = at::empty_like(saved[3]);
    at::Tensor dalpha, dbeta;
    if (needs[1]) dalpha = shared ? partial_sums(x, partial_blocks, n * (n + 1)) : at::empty_like(alpha);
    if (needs[2]) dbeta = shared ? partial_sums(x, partial_blocks, n) : at::empty_like(beta);
    with_element(x.scalar_type(), [&](auto element) {
      using E = decltype(element);
      auto args = arguments<E>(saved, alpha, beta);
      args.dy = in<E>(dy);
      args.dstreams = out<E>(result[0]);
      args.doutput = out<E>(result[3]);
      args.dalpha = out<float>(dalpha);
      args.dbeta = out<float>(dbeta);
      hyper_write_grad(call.where(), args);
    });
    if (needs[1]) result[1] = shared ? total_like(dalpha, saved[1]) : dalpha.to(saved[1].scalar_type());
    if (needs[2]) result[2] = shared ? total_like(dbeta, saved[2]) : dbeta.to(saved[2].scalar_type());
    return result;
  }

 private:
  at::Tensor write(const TensorList& inputs) const {
    const Call call(inputs[0]);
    const at::Tensor written = at::empty_like(inputs[0]), alpha = dense_fp32(inputs[1]), beta = dense_fp32(inputs[2]);
    with_element(written.scalar_type(), [&](auto element) {
      using E = decltype(element);
      auto args = arguments<E>(inputs, alpha, beta);
      args.out = out<E>(written);
      hyper_write(call.where(), args);
    });
    return written;
  }

  template <class E>
  static HyperWrite<E> arguments(const TensorList& inputs, const at::Tensor& alpha, const at::Tensor& beta) {
    HyperWrite<E> args{};
    args.streams = in<E>(inputs[0]);
    args.output = in<E>(inputs[3]);
    args.alpha = in<float>(alpha);
    args.beta = in<float>(beta);
    args.is_static = alpha.dim() == 2;
    args.tokens = inputs[0].size(0) * inputs[0].size(1);
    args.streams_count = static_cast<int>(inputs[0].size(2));
    args.columns = static_cast<int>(inputs[0].size(3));
    return args;
  }

  int streams_remade_ = 0;
};

}  // namespace

satformer::HyperRead hyper_read(const at::Tensor& streams_BTnD, const HyperConnectionParams& params) {
  const at::Tensor streams = aligned(streams_BTnD);
  if (!params.dynamic_alpha_proj.defined()) {
    return {apply_op(std::make_shared<StaticReadOp>(), {streams, params.static_alpha})[0], params.static_alpha,
            params.static_beta};
  }
  TensorList inputs(read_inputs_);
  inputs[streams_] = streams;
  inputs[static_alpha_] = params.static_alpha;
  inputs[static_beta_] = params.static_beta;
  inputs[alpha_proj_] = params.dynamic_alpha_proj;
  inputs[beta_proj_] = params.dynamic_beta_proj;
  inputs[alpha_scale_] = params.dynamic_alpha_scale;
  inputs[beta_scale_] = params.dynamic_beta_scale;
  inputs[norm_weight_] = params.norm_weight;
  inputs[norm_bias_] = params.norm_bias;
  const TensorList result = apply_op(std::make_shared<DynamicReadOp>(params.use_tanh), inputs);
  return {result[0], result[1], result[2]};
}

at::Tensor hyper_write(const at::Tensor& streams_BTnD, const satformer::HyperRead& read,
                       const at::Tensor& output_BTD) {
  return apply_op(std::make_shared<WriteOp>(),
                  {aligned(streams_BTnD), read.alpha, read.beta, aligned(output_BTD)})[0];
}

bool hyper_connection_fits(std::int64_t streams, std::int64_t columns) {
  return hyper_streams_fit(streams) && columns % 4 == 0 && columns <= max_scratch &&
         hyper_sums(static_cast<int>(streams), static_cast<int>(columns)).width <= max_scratch;
}

}  // namespace satformer::gpu
