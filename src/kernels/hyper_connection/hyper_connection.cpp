#include "kernels/hyper_connection/hyper_connection.h"

#include "base/error.h"
#include "kernels/backend.h"

namespace satformer {
namespace {

constexpr std::int64_t largest_fused_rate = 8;

void check(const at::Tensor& streams_BTnD, const at::Tensor& alpha, const at::Tensor& beta) {
  const std::int64_t n = streams_BTnD.dim() == 4 ? streams_BTnD.size(2) : 0;
  if (n == 0 || alpha.dim() < 2 || alpha.size(-2) != n || alpha.size(-1) != n + 1 || beta.size(-1) != n ||
      alpha.dim() != beta.dim() + 1) {
    fail(ExitCode::internal, "hyper_connection: streams ", streams_BTnD.sizes(), ", alpha ", alpha.sizes(), ", beta ",
         beta.sizes());
  }
}

Fits fits(const at::Tensor& streams_BTnD) {
  return {.cpu = streams_BTnD.size(2) <= largest_fused_rate,
          .gpu = gpu::hyper_connection_fits(streams_BTnD.size(2), streams_BTnD.size(3))};
}

}  // namespace

HyperRead hyper_read(const at::Tensor& streams_BTnD, const HyperConnectionParams& params) {
  check(streams_BTnD, params.static_alpha, params.static_beta);
  HyperRead read = choose(streams_BTnD, fits(streams_BTnD), cpu::hyper_read, gpu::hyper_read, reference::hyper_read)(
      streams_BTnD, params);
  if (!read.streams_BTnD.defined()) read.streams_BTnD = streams_BTnD;
  return read;
}

at::Tensor hyper_write(const at::Tensor& streams_BTnD, const HyperRead& read, const at::Tensor& output_BTD) {
  check(streams_BTnD, read.alpha, read.beta);
  Fits suits = fits(streams_BTnD);
  if (output_BTD.scalar_type() != streams_BTnD.scalar_type()) suits = {.cpu = false, .gpu = false};
  return choose(streams_BTnD, suits, cpu::hyper_write, gpu::hyper_write, reference::hyper_write)(streams_BTnD, read,
                                                                                                 output_BTD);
}

}  // namespace satformer
