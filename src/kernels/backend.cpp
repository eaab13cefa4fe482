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
  if (std::string_view(name) == "gpu-on-host") return Backend::gpu_on_host;
  fail(ExitCode::usage, "SATFORMER_KERNELS = '", name, "' is not one of: auto, reference, gpu-on-host");
}

thread_local std::optional<Backend> forced_backend;

}  // namespace

Backend active_backend() {
  static const Backend from_environment = backend_from_environment();
  return forced_backend.value_or(from_environment);
}

BackendScope::BackendScope(Backend backend) : previous_(active_backend()) { forced_backend = backend; }
BackendScope::~BackendScope() { forced_backend = previous_; }

bool fused_cpu_ok(const at::Tensor& x) { return path_for(x) == Path::cpu; }

bool built_with_cuda() {
#ifdef SATFORMER_CUDA
  return true;
#else
  return false;
#endif
}

Path path_on(at::Device device) {
  const Backend backend = active_backend();
  if (backend == Backend::reference) return Path::reference;
  if (device.is_cuda()) return built_with_cuda() ? Path::gpu : Path::reference;
  if (!device.is_cpu()) return Path::reference;
  return backend == Backend::gpu_on_host ? Path::gpu : Path::cpu;
}

Path path_for(const at::Tensor& x) {
  const bool readable =
      x.dim() > 0 && x.size(-1) > 0 && (x.scalar_type() == at::kFloat || x.scalar_type() == at::kBFloat16);
  return readable ? path_on(x.device()) : Path::reference;
}

}  // namespace satformer
