#include "kernels/gpu/device.h"

#ifdef __CUDACC__
#include <cuda_runtime_api.h>
#endif

namespace satformer::gpu {

#ifdef __CUDACC__
int compute_capability(int device) {
  int major = 0, minor = 0;
  const bool known = cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device) == cudaSuccess &&
                     cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device) == cudaSuccess;
  return known ? 10 * major + minor : 0;
}
#else
int compute_capability(int) { return 0; }
#endif

}  // namespace satformer::gpu
