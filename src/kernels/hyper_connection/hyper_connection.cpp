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

bool fused(const at::Tensor& streams_BTnD) {
  return fused_cpu_ok(streams_BTnD) && streams_BTnD.size(2) <= largest_fused_rate;
}

}  // namespace

HyperRead hyper_read(const at::Tensor& streams_BTnD, const HyperConnectionParams& params) {
  check(streams_BTnD, params.static_alpha, params.static_beta);
  return fused(streams_BTnD) ? cpu::hyper_read(streams_BTnD, params) : reference::hyper_read(streams_BTnD, params);
}

at::Tensor hyper_write(const at::Tensor& streams_BTnD, const HyperRead& read, const at::Tensor& output_BTD) {
  check(streams_BTnD, read.alpha, read.beta);
  return fused(streams_BTnD) && output_BTD.scalar_type() == streams_BTnD.scalar_type()
             ? cpu::hyper_write(streams_BTnD, read, output_BTD)
             : reference::hyper_write(streams_BTnD, read, output_BTD);
}

}  // namespace satformer
