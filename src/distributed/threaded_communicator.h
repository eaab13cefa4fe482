// Operations on a thread of their own, in the order in which they were started, so that they go on while the caller
// computes. The engines of CPU ranks (ring_communicator.cpp, mpi_communicator.cpp) derive from it.
#pragma once

#include <condition_variable>
#include <deque>
#include <exception>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "distributed/communicator.h"
#include "distributed/environment.h"
#include "distributed/rank_watch.h"

namespace satformer {

class ThreadedCommunicator : public Communicator {
 public:
  ~ThreadedCommunicator() override;
  Pending start_all_reduce(at::Tensor tensor) override;
  Pending start_reduce_scatter(at::Tensor whole, at::Tensor part) override;
  Pending start_all_gather(at::Tensor part, at::Tensor whole) override;
  Pending start_broadcast(at::Tensor tensor, int root) override;
  void use_gpu(at::Device device) override;
  void progress() override { watch_->progress(); }
  void set_busy(bool busy) override { watch_->set_busy(busy); }
  void check() override { watch_->check(); }
  void report_failure(ExitCode code, const std::string& text) override { watch_->fail(code, text); }
  void finish() override;

 protected:
  ThreadedCommunicator(const RankEnvironment& environment, std::unique_ptr<RankWatch> watch);

  // Done on the thread; they call poll() while they wait.
  virtual void do_all_reduce(at::Tensor& tensor) = 0;
  virtual void do_reduce_scatter(at::Tensor& whole, at::Tensor& part) = 0;
  virtual void do_all_gather(at::Tensor& part, at::Tensor& whole) = 0;
  virtual void do_broadcast(at::Tensor& tensor, int root) = 0;
  void poll() const;                           // throws if a rank failed or the communicator is being destroyed
  void stop_thread();                          // derived destructors call it first
  bool finished() const { return finished_; }  // finish() was called: all went well

 private:
  struct Job {
    std::function<void()> work;
    bool done = false;
    std::exception_ptr error;
  };
  Pending start(std::function<void()> work);
  void wait_for(const std::shared_ptr<Job>& job);
  void run();

  std::string store_host_;  // where rank 0 is, if the starter said
  std::unique_ptr<RankWatch> watch_;
  std::unique_ptr<Communicator> gpu_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::shared_ptr<Job>> queue_;
  std::exception_ptr broken_;  // of the first operation that failed: none is possible after it
  std::atomic<bool> stop_{false};
  bool finished_ = false;
  std::thread thread_;
};

}  // namespace satformer
