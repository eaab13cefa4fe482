// What the GPUs are. Free of torch and CUDA headers.
#pragma once

namespace satformer::gpu {

// 10 * major + minor of the compute capability, say 90; 0 in a build without CUDA or for a device that does not
// answer.
int compute_capability(int device);

}  // namespace satformer::gpu
