// c10d's NCCL process group behind the communicator's interface. Compiled with CUDA and nccl.h; not yet run on GPUs.
#include <unistd.h>

#include <torch/csrc/distributed/c10d/ProcessGroupNCCL.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>
#include <vector>

#include "distributed/gpu_engine.h"

namespace satformer {
namespace {

// Waiting makes the current stream wait, not the host: what follows on the stream sees the result.
Pending pending(c10::intrusive_ptr<c10d::Work> work) {
  return Pending([work = std::move(work)] { work->wait(); });
}

class NcclCommunicator : public Communicator {
 public:
  NcclCommunicator(Communicator& ranks, at::Device device, c10::intrusive_ptr<c10d::TCPStore> store)
      : store_(std::move(store)) {
    rank_ = ranks.rank();
    size_ = ranks.size();
    local_rank_ = ranks.local_rank();
    local_size_ = ranks.local_size();
    group_ = c10::make_intrusive<c10d::ProcessGroupNCCL>(store_, rank_, size_);
    group_->setBoundDeviceId(device);
  }
  const char* engine() const override { return "NCCL"; }

  Pending start_all_reduce(at::Tensor tensor) override {
    std::vector<at::Tensor> tensors = {std::move(tensor)};
    return pending(group_->allreduce(tensors));
  }
  Pending start_reduce_scatter(at::Tensor whole, at::Tensor part) override {
    return pending(group_->_reduce_scatter_base(part, whole));
  }
  Pending start_all_gather(at::Tensor part, at::Tensor whole) override {
    return pending(group_->_allgather_base(whole, part));
  }
  Pending start_broadcast(at::Tensor tensor, int root) override {
    std::vector<at::Tensor> tensors = {std::move(tensor)};
    c10d::BroadcastOptions options;
    options.rootRank = root;
    return pending(group_->broadcast(tensors, options));
  }

 private:
  c10::intrusive_ptr<c10d::TCPStore> store_;
  c10::intrusive_ptr<c10d::Backend> group_;  // by its base: the names of 2.11 and 2.15 alike
};

std::string own_name() {
  char name[256] = {};
  gethostname(name, sizeof name - 1);
  return name;
}

// Rank 0 serves on a port that the system chooses.
c10::intrusive_ptr<c10d::TCPStore> open_store(Communicator& ranks, const std::string& host) {
  const std::string address = host.empty() ? own_name() : host;
  c10d::TCPStoreOptions options;
  options.port = 0;
  options.waitWorkers = false;
  if (ranks.rank() == 0) {
    options.isServer = true;
    auto store = c10::make_intrusive<c10d::TCPStore>(address, options);
    ranks.broadcast_text(address + " " + std::to_string(store->getPort()), 0);
    return store;
  }
  const std::string place = ranks.broadcast_text("", 0);
  const auto space = place.rfind(' ');
  options.port = static_cast<std::uint16_t>(std::stoi(place.substr(space + 1)));
  return c10::make_intrusive<c10d::TCPStore>(place.substr(0, space), options);
}

}  // namespace
}  // namespace satformer

extern "C" satformer::Communicator* satformer_make_nccl(satformer::Communicator& ranks, at::Device device,
                                                        const std::string& store_host) {
  return new satformer::NcclCommunicator(ranks, device, satformer::open_store(ranks, store_host));
}
