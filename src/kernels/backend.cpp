#include "kernels/backend.h"

#include <cstdlib>
#include <optional>
#include <string_view>

#include "base/error.h"

namespace satformer {
namespace {

Backend backend_from_environment() {
  const char* name = std::getenv("SATFORMER_KERNELS");
  if (!name || !*name || std::string_view(name) == "auto") return Backend::automatic;
  if (std::string_view(name) == "reference") return Backend::reference;
  fail(ExitCode::usage, "SATFORMER_KERNELS = '", name, "' is not one of: auto, reference");
}

thread_local std::optional<Backend> forced_backend;

}  // namespace

Backend active_backend() {
  static const Backend from_environment = backend_from_environment();
  return forced_backend.value_or(from_environment);
}

BackendScope::BackendScope(Backend backend) : previous_(active_backend()) { forced_backend = backend; }
BackendScope::~BackendScope() { forced_backend = previous_; }

bool fused_cpu_ok(const at::Tensor& x) {
  return active_backend() == Backend::automatic && x.device().is_cpu() && x.dim() > 0 && x.size(-1) > 0 &&
         (x.scalar_type() == at::kFloat || x.scalar_type() == at::kBFloat16);
}

}  // namespace satformer
