// The processes ("ranks") of one run and the operations that all of them take part in. Every rank calls the same
// operations in the same order. Tensors are contiguous, of float32, float64, int64 or uint8, on the communicator's
// device, and equal in shape on all ranks. A rank that fails, is killed or hangs makes the waiting of all others
// throw an Error that names it.
//
// Made by connect_ranks() (ranks.h). One thread at a time calls a communicator.
#pragma once

#include "kernels/tensor.h"

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "base/error.h"

namespace satformer {

// An operation that was started. It may be dropped without waiting; its tensors are kept until it is over.
class Pending {
 public:
  Pending() = default;  // nothing to wait for
  explicit Pending(std::function<void()> wait) : wait_(std::move(wait)) {}
  void wait() {
    if (wait_) std::exchange(wait_, nullptr)();
  }

 private:
  std::function<void()> wait_;
};

class Communicator {
 public:
  virtual ~Communicator() = default;
  int rank() const { return rank_; }
  int size() const { return size_; }
  int local_rank() const { return local_rank_; }  // among the ranks on this machine
  int local_size() const { return local_size_; }
  virtual const char* engine() const = 0;  // "one process", "sockets", "MPI", "NCCL"

  // tensor becomes the sum over ranks.
  virtual Pending start_all_reduce(at::Tensor tensor) = 0;
  // whole: size() parts of equal length; part becomes the sum over ranks of the rank()-th. whole is then undefined.
  virtual Pending start_reduce_scatter(at::Tensor whole, at::Tensor part) = 0;
  // whole becomes the parts of all ranks in order.
  virtual Pending start_all_gather(at::Tensor part, at::Tensor whole) = 0;
  // tensor becomes that of rank `root`.
  virtual Pending start_broadcast(at::Tensor tensor, int root) = 0;

  void all_reduce(const at::Tensor& tensor) { start_all_reduce(tensor).wait(); }
  void reduce_scatter(const at::Tensor& whole, const at::Tensor& part) { start_reduce_scatter(whole, part).wait(); }
  void all_gather(const at::Tensor& part, const at::Tensor& whole) { start_all_gather(part, whole).wait(); }
  void broadcast(const at::Tensor& tensor, int root) { start_broadcast(tensor, root).wait(); }
  void barrier();
  std::string broadcast_text(const std::string& text, int root);

  // From now on tensors of this GPU go through NCCL. Error(config) where that is impossible.
  virtual void use_gpu(at::Device) {}

  // For the watch over stuck ranks (rank_watch.h).
  virtual void progress() {}                                    // this rank got on with its own work
  virtual void set_busy(bool) {}                                // it is at work that takes long without progress
  virtual void check() {}                                       // throws if another rank has failed
  virtual void report_failure(ExitCode, const std::string&) {}  // tells the others that this rank fails
  virtual void finish() {}                                      // all ranks are done

 protected:
  Communicator() = default;
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;
  int rank_ = 0, size_ = 1, local_rank_ = 0, local_size_ = 1;
};

// A run of one process: operations leave tensors as they are.
std::unique_ptr<Communicator> make_one_process();

// While it lives, the rank is at long work that makes no progress (saving, say).
class LongWork {
 public:
  explicit LongWork(Communicator& ranks) : ranks_(ranks) { ranks_.set_busy(true); }
  ~LongWork() { ranks_.set_busy(false); }
  LongWork(const LongWork&) = delete;
  LongWork& operator=(const LongWork&) = delete;

 private:
  Communicator& ranks_;
};

}  // namespace satformer
