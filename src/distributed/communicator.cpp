#include "distributed/communicator.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>

#include <cstring>

namespace satformer {
namespace {

class OneProcess : public Communicator {
 public:
  const char* engine() const override { return "one process"; }
  Pending start_all_reduce(at::Tensor) override { return {}; }
  Pending start_reduce_scatter(at::Tensor whole, at::Tensor part) override {
    part.copy_(whole);
    return {};
  }
  Pending start_all_gather(at::Tensor part, at::Tensor whole) override {
    whole.copy_(part);
    return {};
  }
  Pending start_broadcast(at::Tensor, int) override { return {}; }
};

}  // namespace

void Communicator::barrier() { all_reduce(at::zeros({1}, at::kLong)); }

std::string Communicator::broadcast_text(const std::string& text, int root) {
  at::Tensor length = at::zeros({1}, at::kLong);
  *length.mutable_data_ptr<std::int64_t>() = static_cast<std::int64_t>(text.size());
  broadcast(length, root);
  const auto bytes = *length.const_data_ptr<std::int64_t>();
  if (bytes == 0) return {};
  at::Tensor data = at::empty({bytes}, at::kByte);
  if (rank_ == root) std::memcpy(data.mutable_data_ptr(), text.data(), text.size());
  broadcast(data, root);
  return {static_cast<const char*>(data.const_data_ptr()), static_cast<std::size_t>(bytes)};
}

std::unique_ptr<Communicator> make_one_process() { return std::make_unique<OneProcess>(); }

}  // namespace satformer
