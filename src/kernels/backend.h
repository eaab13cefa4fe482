// Which implementation a kernel front uses. Fronts pick the fused one where it exists for the tensors at hand.
#pragma once

#include "kernels/tensor.h"

namespace satformer {

enum class Backend { automatic, reference };

// Process-wide choice: SATFORMER_KERNELS=reference|auto in the environment, or a BackendScope.
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

}  // namespace satformer
