// NCCL for tensors on GPUs, in a module of its own that is loaded when it is needed: it links libtorch_cuda, which
// most machines have not. Ranks meet and watch one another as they do on CPUs, and CPU tensors stay on that way.
#pragma once

#include <memory>
#include <string>

#include "distributed/communicator.h"

namespace satformer {

// What the module exports as "satformer_make_nccl". `ranks` connects the same ranks and outlives the result; rank 0
// listens on `store_host`, or on a name of its own machine where that is empty.
using MakeNccl = Communicator* (*)(Communicator& ranks, at::Device device, const std::string& store_host);

// Error(config) in a build without NCCL, or where its libraries are missing.
std::unique_ptr<Communicator> load_nccl(Communicator& ranks, at::Device device, const std::string& store_host);

}  // namespace satformer
