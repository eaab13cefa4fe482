// Which implementation a kernel front uses. Fronts pick the fused one where it exists for the tensors at hand.
#pragma once

#include "kernels/tensor.h"

namespace satformer {

// gpu_on_host: the GPU's programs, run thread by thread on the CPU (kernels/gpu/team.h), for tests without a GPU.
enum class Backend { automatic, reference, gpu_on_host };

// Process-wide choice: SATFORMER_KERNELS=auto|reference|gpu-on-host in the environment, or a BackendScope.
Backend active_backend();

// Forces a backend on this thread while it lives (tests, verify --kernels).
class BackendScope {
 public:
  explicit BackendScope(Backend backend);
  ~BackendScope();
  BackendScope(const BackendScope&) = delete;
  BackendScope& operator=(const BackendScope&) = delete;

 private:
  Backend previous_;
};

// True if the fused CPU rows can take this tensor: CPU, float32 or bfloat16, with elements on its last axis. (Strided
// tensors are made contiguous by the operations.)
bool fused_cpu_ok(const at::Tensor& x);

enum class Path { reference, cpu, gpu };
// What to use for an operation on x: the fused CPU or GPU path where the backend, x's device and x's type allow it
// (GPU: in a build with CUDA).
Path path_for(const at::Tensor& x);
Path path_on(at::Device device);  // whatever the type
bool built_with_cuda();

// What the fused paths of one front take, where that is not everything.
struct Fits {
  bool cpu = true, gpu = true;
};
// The implementation that a front calls.
template <class F>
F* choose(const at::Tensor& x, Fits fits, F* cpu, F* gpu, F* reference) {
  const Path path = path_for(x);
  if (path == Path::cpu && fits.cpu) return cpu;
  return path == Path::gpu && fits.gpu ? gpu : reference;
}

}  // namespace satformer
