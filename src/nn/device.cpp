#include "nn/device.h"

#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <ATen/detail/CUDAHooksInterface.h>
#include <dlfcn.h>
#include <sched.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <optional>
#include <vector>

#include "base/error.h"
#include "kernels/gpu/device.h"

namespace satformer {
namespace {

// libtorch_cuda registers itself when it is loaded; nothing links it, so that CPU-only wheels work.
void require_cuda(const std::string& name) {
  if (at::hasCUDA()) return;
  std::string reason = "no CUDA device is visible to libtorch";
  if (!dlopen("libtorch_cuda.so", RTLD_NOW | RTLD_GLOBAL)) reason = dlerror();
  if (!at::hasCUDA()) fail(ExitCode::config, "device '", name, "' cannot be used: ", reason);
}

// From Hopper on cuDNN's attention comes before flash attention; libtorch's own order has it last.
void prefer_cudnn_attention(int device) {
  if (gpu::compute_capability(device) < 90) return;
  std::vector<std::int64_t> order = {static_cast<std::int64_t>(at::SDPBackend::cudnn_attention)};
  for (const at::SDPBackend backend : at::globalContext().sDPPriorityOrder()) {
    if (backend != at::SDPBackend::cudnn_attention) order.push_back(static_cast<std::int64_t>(backend));
  }
  at::globalContext().setSDPPriorityOrder(order);
}

// The number of a CUDA device, nothing for the CPU.
std::optional<int> device_index(const std::string& name) {
  if (name == "cpu") return std::nullopt;
  if (name == "cuda") return 0;
  int index = 0;
  const char* end = name.data() + name.size();
  if (name.starts_with("cuda:")) {
    const auto parsed = std::from_chars(name.data() + 5, end, index);
    if (parsed.ec == std::errc() && parsed.ptr == end && index >= 0 && index <= 1023) return index;
  }
  const std::vector<std::string> known = {"cpu", "cuda", "cuda:0"};
  fail(ExitCode::config, "device '", name, "' is not cpu, cuda or cuda:N.", did_you_mean(name, known));
}

}  // namespace

void check_device_name(const std::string& name) { device_index(name); }

at::Device parse_device(const std::string& name) {
  const std::optional<int> index = device_index(name);
  if (!index) return at::kCPU;
  require_cuda(name);
  const int visible = static_cast<int>(at::detail::getCUDAHooks().deviceCount());
  if (*index >= visible) fail(ExitCode::config, "device '", name, "': only ", visible, " CUDA devices are visible");
  prefer_cudnn_attention(*index);
  return {at::kCUDA, static_cast<at::DeviceIndex>(*index)};
}

void set_num_threads(int threads) {
  constexpr int most = 1024;
  if (threads < 0 || threads > most) {
    fail(ExitCode::config, "threads = ", threads, " is out of range: it must be at least 0 (all cores) and at most ",
         most);
  }
  if (threads <= 0) {
    const char* environment = std::getenv("OMP_NUM_THREADS");
    threads = environment ? std::atoi(environment) : 0;
  }
  if (threads <= 0) {
    cpu_set_t set;
    threads = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
  }
  at::set_num_threads(std::max(1, threads));
}

int num_threads() { return at::get_num_threads(); }

}  // namespace satformer
