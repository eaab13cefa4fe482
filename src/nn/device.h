// Devices by name.
#pragma once

#include <c10/core/Device.h>

#include <string>

namespace satformer {

// "cpu", "cuda" or "cuda:N". Error(config) for another name (nearest given) or where CUDA is not available (why).
at::Device parse_device(const std::string& name);
// Error(config) for a name that is none of these; asks for no such device.
void check_device_name(const std::string& name);
// 0: OMP_NUM_THREADS, else the cores this process may use. Error(config) outside 0..1024.
void set_num_threads(int threads);
int num_threads();

}  // namespace satformer
