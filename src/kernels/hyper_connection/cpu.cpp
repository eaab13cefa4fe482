#include <ATen/ops/zeros.h>

#include <limits>

#include "kernels/cpu_rows.h"
#include "kernels/hyper_connection/hyper_connection.h"
#include "kernels/hyper_connection/read_inputs.h"
#include "kernels/hyper_connection/sums.h"

namespace satformer::cpu {
namespace {

class HyperReadOp : public CpuOp {
 protected:
  // Sum of the streams by the first column of alpha [n, n + 1], or of each token's own.
  at::Tensor read(const at::Tensor& x, const at::Tensor& alpha) const {
    const std::int64_t n = x.size(2);
    const at::Tensor input = at::empty({x.size(0), x.size(1), x.size(3)}, x.options()), weights = dense_fp32(alpha);
    with_element(isa(), x.scalar_type(), [&](const auto& table, auto element) {
      using E = decltype(element);
      rows::HyperRead<E> args{};
      args.streams = in<E>(x);
      (alpha.dim() == 2 ? args.static_alpha : args.given_alpha) = in<float>(weights);
      args.columns = x.size(3);
      args.streams_count = n;
      args.input = out<E>(input);
      const auto kernel = table.hyper_read[n - 1];
      parallel_ranges(x.size(0) * x.size(1), n * x.size(3),
                      [&](std::int64_t b, std::int64_t e) { kernel(args, b, e); });
    });
    return input;
  }

  int streams_remade_ = 0;
};

class DynamicReadOp : public HyperReadOp {
 public:
  explicit DynamicReadOp(bool use_tanh) : use_tanh_(use_tanh) {}

  TensorList forward(const TensorList& inputs, TensorList& saved) override {
    const at::Tensor& x = inputs[streams_];
    const std::int64_t B = x.size(0), T = x.size(1), n = x.size(2), D = x.size(3);
    const auto fp32 = x.options().dtype(at::kFloat);
    const at::Tensor input = at::empty({B, T, D}, x.options()), alpha = at::empty({B, T, n, n + 1}, fp32),
                     beta = at::empty({B, T, n}, fp32), stats = at::empty({B, T, n, n + 4}, fp32);
    const Projection proj = projection(inputs);
    const at::Tensor static_alpha = dense_fp32(inputs[static_alpha_]), static_beta = dense_fp32(inputs[static_beta_]);
    with_element(isa(), x.scalar_type(), [&](const auto& table, auto element) {
      using E = decltype(element);
      const bool layer = inputs[norm_bias_].defined();
      const rows::HyperRead<E> args{.streams = in<E>(x),
                                    .proj = in<float>(proj.folded),
                                    .proj_bias = in<float>(proj.bias),
                                    .static_alpha = in<float>(static_alpha),
                                    .static_beta = in<float>(static_beta),
                                    .given_alpha = nullptr,
                                    .scale_alpha = inputs[alpha_scale_].item<float>(),
                                    .scale_beta = inputs[beta_scale_].item<float>(),
                                    .eps = layer ? 1e-5f : std::numeric_limits<float>::epsilon(),
                                    .use_tanh = use_tanh_,
                                    .layer_norm = layer,
                                    .streams_count = n,
                                    .columns = D,
                                    .input = out<E>(input),
                                    .alpha = out<float>(alpha),
                                    .beta = out<float>(beta),
                                    .stats = out<float>(stats),
                                    .keep_stats = true};
      const auto kernel = table.hyper_read[n - 1];
      parallel_ranges(B * T, 2 * n * D, [&](std::int64_t b, std::int64_t e) { kernel(args, b, e); });
    });
    saved = inputs;
    saved.push_back(alpha);
    saved.push_back(stats);
    streams_remade_ = remade_by(x);
    return {input, alpha, beta, x};
  }
  int remakes(std::size_t output) const override {
    return output == 0 ? 1 + streams_remade_ : output == 3 ? streams_remade_ : 0;
  }
  at::Tensor remake(std::size_t output, const TensorList& saved) override {
    const at::Tensor &x = saved[streams_], &alpha = saved[read_inputs_];
    return output == 0 ? read(x, alpha) : x;
  }

  TensorList backward(const TensorList& grads, const TensorList& saved, const std::vector<bool>& needs) override {
    TensorList result(read_inputs_);
    if (!grads[0].defined() && !grads[1].defined() && !grads[2].defined()) {
      result[streams_] = grads[3];
      return result;
    }
    const at::Tensor& x = saved[streams_];
    const at::Tensor &alpha = saved[read_inputs_], &stats = saved[read_inputs_ + 1];
    const std::int64_t tokens = x.size(0) * x.size(1), n = x.size(2), D = x.size(3);
    const at::Tensor dinput = dense(grads[0], x.scalar_type()), dalpha = dense_fp32(grads[1]),
                     dbeta = dense_fp32(grads[2]), passed = dense(grads[3], x.scalar_type());
    const Projection proj = projection(saved);
    const at::Tensor proj_mean = proj.folded.mean(1);
    const bool layer = saved[norm_bias_].defined();
    if (needs[streams_]) result[streams_] = at::empty_like(x);
    bool parameters = false;
    for (std::size_t i = static_alpha_; i < read_inputs_; ++i) parameters = parameters || needs[i];
    const RowBlocks blocks(tokens);
    const HyperSums layout = hyper_sums(static_cast<int>(n), static_cast<int>(D));
    at::Tensor partial;
    if (parameters) partial = block_sums(blocks, layout.width);
    with_element(isa(), x.scalar_type(), [&](const auto& table, auto element) {
      using E = decltype(element);
      const rows::HyperReadGrad<E> args{.streams = in<E>(x),
                                        .proj = in<float>(proj.folded),
                                        .proj_bias = in<float>(proj.bias),
                                        .proj_mean = in<float>(proj_mean),
                                        .alpha = in<float>(alpha),
                                        .stats = in<float>(stats),
                                        .scale_alpha = saved[alpha_scale_].item<float>(),
                                        .scale_beta = saved[beta_scale_].item<float>(),
                                        .use_tanh = use_tanh_,
                                        .layer_norm = layer,
                                        .streams_count = n,
                                        .columns = D,
                                        .dinput = in<E>(dinput),
                                        .dalpha = in<float>(dalpha),
                                        .dbeta = in<float>(dbeta),
                                        .passed = in<E>(passed),
                                        .dstreams = out<E>(result[streams_]),
                                        .dproj = nullptr,
                                        .dstatic_alpha = nullptr,
                                        .dstatic_beta = nullptr,
                                        .dscales = nullptr,
                                        .dz_sum = nullptr};
      const auto kernel = table.hyper_read_grad[n - 1];
      parallel_blocks(blocks, 4 * n * D, [&](std::int64_t block, std::int64_t begin, std::int64_t end) {
        auto part = args;
        if (parameters) {
          float* sums = out<float>(partial) + block * layout.width;
          part.dstatic_alpha = sums;
          part.dstatic_beta = sums + layout.at_static_beta;
          part.dscales = sums + layout.at_scales;
          part.dz_sum = sums + layout.at_dz;
          part.dproj = sums + layout.at_proj;
        }
        kernel(part, begin, end);
      });
    });
    if (!parameters) return result;
    give_parameter_grads(sum_of_blocks(partial), proj, saved, needs, result);
    return result;
  }

 private:
  bool use_tanh_;
};

// Inputs: streams, static alpha. Outputs: what the sublayer reads, the streams.
class StaticReadOp : public HyperReadOp {
 public:
  TensorList forward(const TensorList& inputs, TensorList& saved) override {
    saved = inputs;
    streams_remade_ = remade_by(inputs[0]);
    return {read(inputs[0], inputs[1]), inputs[0]};
  }
  int remakes(std::size_t output) const override { return output == 0 ? 1 + streams_remade_ : streams_remade_; }
  at::Tensor remake(std::size_t output, const TensorList& saved) override {
    return output == 0 ? read(saved[0], saved[1]) : saved[0];
  }
  TensorList backward(const TensorList& grads, const TensorList& saved, const std::vector<bool>& needs) override {
    TensorList result(2);
    if (!grads[0].defined()) {
      result[0] = grads[1];
      return result;
    }
    const at::Tensor& x = saved[0];
    const std::int64_t n = x.size(2), D = x.size(3), width = n * (n + 1);
    const at::Tensor dinput = dense(grads[0], x.scalar_type()), alpha = dense_fp32(saved[1]),
                     passed = dense(grads[1], x.scalar_type());
    const RowBlocks blocks(x.size(0) * x.size(1));
    if (needs[0]) result[0] = at::empty_like(x);
    at::Tensor partial;
    if (needs[1]) partial = block_sums(blocks, width);
    with_element(isa(), x.scalar_type(), [&](const auto& table, auto element) {
      using E = decltype(element);
      rows::HyperReadGrad<E> args{};
      args.streams = in<E>(x);
      args.alpha = in<float>(alpha);
      args.columns = D;
      args.streams_count = n;
      args.dinput = in<E>(dinput);
      args.passed = in<E>(passed);
      args.dstreams = out<E>(result[0]);
      const auto kernel = table.hyper_read_grad[n - 1];
      parallel_blocks(blocks, 2 * n * D, [&](std::int64_t block, std::int64_t begin, std::int64_t end) {
        auto part = args;
        if (needs[1]) part.dstatic_alpha = out<float>(partial) + block * width;
        kernel(part, begin, end);
      });
    });
    if (needs[1]) result[1] = sum_of_blocks(partial).to(saved[1].scalar_type()).view_as(saved[1]);
    return result;
  }
};

// Inputs: streams, alpha, beta, output of the sublayer.
class WriteOp : public CpuOp {
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
    const std::int64_t n = x.size(2), width = n * (n + 2);
    const at::Tensor dy = dense(grads[0], x.scalar_type()), alpha = dense_fp32(saved[1]), beta = dense_fp32(saved[2]);
    const bool shared = alpha.dim() == 2;
    const RowBlocks blocks(x.size(0) * x.size(1));
    if (needs[0]) result[0] = at::empty_like(x);
    if (needs[3]) result[3] = at::empty_like(saved[3]);
    at::Tensor partial, dalpha, dbeta;  // partial: a row of alpha's sums, then beta's
    if (shared) {
      partial = block_sums(blocks, width);
    } else {
      dalpha = at::zeros(alpha.sizes(), alpha.options());
      dbeta = at::empty_like(beta);
    }
    with_element(isa(), x.scalar_type(), [&](const auto& table, auto element) {
      using E = decltype(element);
      auto args = arguments<E>(saved, alpha, beta);
      args.dy = in<E>(dy);
      args.dstreams = out<E>(result[0]);
      args.doutput = out<E>(result[3]);
      const auto kernel = table.hyper_write_grad[n - 1];
      parallel_blocks(blocks, 4 * n * x.size(3), [&](std::int64_t block, std::int64_t begin, std::int64_t end) {
        auto part = args;
        if (needs[1]) part.dalpha = shared ? out<float>(partial) + block * width : out<float>(dalpha);
        if (needs[2]) part.dbeta = shared ? out<float>(partial) + block * width + n * (n + 1) : out<float>(dbeta);
        kernel(part, begin, end);
      });
    });
    if (shared) {
      const at::Tensor sums = sum_of_blocks(partial);
      dalpha = sums.narrow(0, 0, n * (n + 1)).view_as(alpha);
      dbeta = sums.narrow(0, n * (n + 1), n).view_as(beta);
    }
    if (needs[1]) result[1] = dalpha.to(saved[1].scalar_type());
    if (needs[2]) result[2] = dbeta.to(saved[2].scalar_type());
    return result;
  }

 private:
  at::Tensor write(const TensorList& inputs) const {
    const at::Tensor& x = inputs[0];
    const at::Tensor written = at::empty_like(x), alpha = dense_fp32(inputs[1]), beta = dense_fp32(inputs[2]);
    with_element(isa(), x.scalar_type(), [&](const auto& table, auto element) {
      using E = decltype(element);
      auto args = arguments<E>(inputs, alpha, beta);
      args.out = out<E>(written);
      const auto kernel = table.hyper_write[x.size(2) - 1];
      parallel_ranges(x.size(0) * x.size(1), 2 * x.size(2) * x.size(3),
                      [&](std::int64_t b, std::int64_t e) { kernel(args, b, e); });
    });
    return written;
  }

  template <class E>
  static rows::HyperWrite<E> arguments(const TensorList& inputs, const at::Tensor& alpha, const at::Tensor& beta) {
    rows::HyperWrite<E> args{};
    args.streams = in<E>(inputs[0]);
    args.output = in<E>(inputs[3]);
    args.alpha = in<float>(alpha);
    args.beta = in<float>(beta);
    args.is_static = alpha.dim() == 2;
    args.streams_count = inputs[0].size(2);
    args.columns = inputs[0].size(3);
    return args;
  }

  int streams_remade_ = 0;
};

}  // namespace

HyperRead hyper_read(const at::Tensor& streams_BTnD, const HyperConnectionParams& params) {
  const at::Tensor streams = streams_BTnD.contiguous();
  if (!params.dynamic_alpha_proj.defined()) {
    const TensorList result = apply_op(std::make_shared<StaticReadOp>(), {streams, params.static_alpha});
    return {result[0], params.static_alpha, params.static_beta, result[1]};
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
  return {result[0], result[1], result[2], result[3]};
}

at::Tensor hyper_write(const at::Tensor& streams_BTnD, const HyperRead& read, const at::Tensor& output_BTD) {
  return apply_op(std::make_shared<WriteOp>(),
                  {streams_BTnD.contiguous(), read.alpha, read.beta, output_BTD.contiguous()})[0];
}

}  // namespace satformer::cpu
