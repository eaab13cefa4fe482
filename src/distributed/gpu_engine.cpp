#include "distributed/gpu_engine.h"

#include <dlfcn.h>
#include <unistd.h>

#include <climits>

namespace satformer {
namespace {

// The module beside the program.
std::string module_path() {
  char path[PATH_MAX] = {};
  const ssize_t length = readlink("/proc/self/exe", path, sizeof path - 1);
  const std::string program(path, length > 0 ? static_cast<std::size_t>(length) : 0);
  return program.substr(0, program.rfind('/') + 1) + "satformer-nccl.so";
}

}  // namespace

std::unique_ptr<Communicator> load_nccl(Communicator& ranks, at::Device device, const std::string& store_host) {
  const std::string path = module_path();
  void* const library = access(path.c_str(), R_OK) == 0 ? dlopen(path.c_str(), RTLD_NOW) : nullptr;
  void* const symbol = library ? dlsym(library, "satformer_make_nccl") : nullptr;
  if (!symbol) {
    const char* reason = access(path.c_str(), R_OK) == 0 ? dlerror() : nullptr;
    fail(ExitCode::config, ranks.size(), " ranks cannot compute on GPUs: ",
         reason ? reason : "this build of satformer has no NCCL (it needs -DSATFORMER_CUDA=ON and nccl.h)");
  }
  return std::unique_ptr<Communicator>(reinterpret_cast<MakeNccl>(symbol)(ranks, device, store_host));
}

}  // namespace satformer
