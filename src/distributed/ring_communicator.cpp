#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>

#include <cstring>

#include "distributed/engines.h"
#include "distributed/threaded_communicator.h"

namespace satformer {
namespace {

constexpr std::int64_t gathered_bytes = 1 << 14;  // shorter sums: every rank gets all terms and adds them up itself
constexpr std::int64_t broadcast_piece = 1 << 20;

std::span<std::byte> bytes_of(const at::Tensor& tensor) {
  return {static_cast<std::byte*>(tensor.mutable_data_ptr()), static_cast<std::size_t>(tensor.nbytes())};
}

template <class T>
void add(T* sum, const T* terms, std::int64_t count) {
  constexpr std::int64_t block = 64;
  std::int64_t i = 0;
  for (; i + block <= count; i += block) {
    for (std::int64_t j = 0; j < block; ++j) sum[i + j] += terms[i + j];
  }
  for (; i < count; ++i) sum[i] += terms[i];
}

// On this thread alone, without libtorch's: those are at work on the next layers.
void add_to(const at::Tensor& sum, const at::Tensor& terms) {
  const std::int64_t count = sum.numel();
  switch (sum.scalar_type()) {
    case at::kFloat:
      return add(sum.mutable_data_ptr<float>(), terms.const_data_ptr<float>(), count);
    case at::kDouble:
      return add(sum.mutable_data_ptr<double>(), terms.const_data_ptr<double>(), count);
    case at::kLong:
      return add(sum.mutable_data_ptr<std::int64_t>(), terms.const_data_ptr<std::int64_t>(), count);
    default:
      fail(ExitCode::internal, "ranks cannot add tensors of this type");
  }
}

class RingCommunicator : public ThreadedCommunicator {
 public:
  RingCommunicator(const RankEnvironment& environment, std::unique_ptr<RankWatch> watch, Socket next, Socket previous)
      : ThreadedCommunicator(environment, std::move(watch)), next_(std::move(next)), previous_(std::move(previous)) {}
  ~RingCommunicator() override { stop_thread(); }
  const char* engine() const override { return "sockets"; }

 protected:
  void do_reduce_scatter(at::Tensor& whole, at::Tensor& part) override {
    const at::Tensor parts = whole.view({size(), -1});
    const at::Tensor received = at::empty_like(part.view({-1}));
    for (int step = 0; step + 1 < size(); ++step) {
      pass(parts[around(rank() - 1 - step)], received);
      add_to(parts[around(rank() - 2 - step)], received);
    }
    std::memcpy(part.mutable_data_ptr(), parts[rank()].const_data_ptr(), part.nbytes());
  }

  void do_all_gather(at::Tensor& part, at::Tensor& whole) override {
    const at::Tensor parts = whole.view({size(), -1});
    std::memcpy(parts[rank()].mutable_data_ptr(), part.const_data_ptr(), part.nbytes());
    for (int step = 0; step + 1 < size(); ++step)
      pass(parts[around(rank() - step)], parts[around(rank() - step - 1)]);
  }

  void do_all_reduce(at::Tensor& tensor) override {
    const at::Tensor flat = tensor.view({-1});
    if (static_cast<std::int64_t>(flat.nbytes()) <= gathered_bytes) {
      at::Tensor own = flat.clone(), all = at::empty({size() * flat.numel()}, flat.options());
      do_all_gather(own, all);
      std::memset(flat.mutable_data_ptr(), 0, flat.nbytes());
      for (int from = 0; from < size(); ++from) add_to(flat, all.narrow(0, from * flat.numel(), flat.numel()));
      return;
    }
    const std::int64_t each = (flat.numel() + size() - 1) / size();
    at::Tensor whole = at::zeros({each * size()}, flat.options()), part = at::empty({each}, flat.options());
    std::memcpy(whole.mutable_data_ptr(), flat.const_data_ptr(), flat.nbytes());
    do_reduce_scatter(whole, part);
    do_all_gather(part, whole);
    std::memcpy(flat.mutable_data_ptr(), whole.const_data_ptr(), flat.nbytes());
  }

  void do_broadcast(at::Tensor& tensor, int root) override {
    const std::span<std::byte> all = bytes_of(tensor);
    const bool last = around(rank() + 1) == root;
    for (std::size_t from = 0; from < all.size(); from += broadcast_piece) {
      const auto piece = all.subspan(from, std::min<std::size_t>(broadcast_piece, all.size() - from));
      if (rank() != root) exchange(next_, {}, previous_, piece, [this] { poll(); });
      if (!last) exchange(next_, piece, previous_, {}, [this] { poll(); });
    }
  }

 private:
  int around(int rank) const { return (rank % size() + size()) % size(); }
  void pass(const at::Tensor& sent, const at::Tensor& received) {
    exchange(next_, bytes_of(sent), previous_, bytes_of(received), [this] { poll(); });
  }

  Socket next_, previous_;
};

}  // namespace

std::unique_ptr<Communicator> make_ring(const RankEnvironment& environment, const Meeting& meeting,
                                        const Listener& listener, std::unique_ptr<RankWatch> watch,
                                        Deadline deadline) {
  const int size = environment.size, rank = environment.rank;
  const int next = (rank + 1) % size, previous = (rank + size - 1) % size;
  const std::string token = meeting.endpoints[0].token;
  Socket to = connect_to(meeting.endpoints[static_cast<std::size_t>(next)], deadline, concat("rank ", next));
  to.send(concat(token, " ", rank), deadline, concat("rank ", next));
  Socket from;
  while (!from.open()) {
    Socket candidate = listener.accept(deadline, concat("rank ", previous));
    try {
      if (candidate.receive(after_seconds(5), "a rank") == concat(token, " ", previous)) from = std::move(candidate);
    } catch (const Error&) {  // a stranger
    }
  }
  return std::make_unique<RingCommunicator>(environment, std::move(watch), std::move(to), std::move(from));
}

}  // namespace satformer
