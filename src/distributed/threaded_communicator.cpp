#include "distributed/threaded_communicator.h"

#include <utility>

#include "distributed/gpu_engine.h"

namespace satformer {

ThreadedCommunicator::ThreadedCommunicator(const RankEnvironment& environment, std::unique_ptr<RankWatch> watch)
    : store_host_(environment.store_host), watch_(std::move(watch)) {
  rank_ = environment.rank;
  size_ = environment.size;
  local_rank_ = environment.local_rank;
  local_size_ = environment.local_size;
  thread_ = std::thread([this] { run(); });
}

ThreadedCommunicator::~ThreadedCommunicator() { stop_thread(); }

void ThreadedCommunicator::stop_thread() {
  if (!thread_.joinable()) return;
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void ThreadedCommunicator::poll() const {
  watch_->check();
  if (stop_) fail(ExitCode::internal, "an operation between ranks was given up");
}

void ThreadedCommunicator::finish() {
  barrier();
  watch_->finish();
  finished_ = true;
}

Pending ThreadedCommunicator::start(std::function<void()> work) {
  watch_->check();
  watch_->progress();
  auto job = std::make_shared<Job>();
  job->work = std::move(work);
  {
    const std::lock_guard lock(mutex_);
    if (broken_) std::rethrow_exception(broken_);
    queue_.push_back(job);
  }
  changed_.notify_all();
  return Pending([this, job] { wait_for(job); });
}

void ThreadedCommunicator::wait_for(const std::shared_ptr<Job>& job) {
  watch_->set_waiting(true);
  {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return job->done; });
  }
  watch_->set_waiting(false);
  watch_->progress();
  if (job->error) std::rethrow_exception(job->error);
}

void ThreadedCommunicator::run() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [&] { return stop_ || !queue_.empty(); });
    if (stop_) return;
    const std::shared_ptr<Job> job = std::move(queue_.front());
    queue_.pop_front();
    if (broken_) {
      job->error = broken_;
    } else {
      lock.unlock();
      std::exception_ptr error;
      try {
        job->work();
      } catch (...) {
        error = std::current_exception();
        try {
          watch_->check_after(stop_ ? 0 : 5);
        } catch (...) {
          error = std::current_exception();
        }
      }
      lock.lock();
      if (error) broken_ = job->error = error;
    }
    job->work = nullptr;  // lets its tensors go
    job->done = true;
    changed_.notify_all();
  }
}

void ThreadedCommunicator::use_gpu(at::Device device) { gpu_ = load_nccl(*this, device, store_host_); }

Pending ThreadedCommunicator::start_all_reduce(at::Tensor tensor) {
  if (gpu_ && tensor.is_cuda()) return gpu_->start_all_reduce(tensor);
  return start([this, tensor]() mutable { do_all_reduce(tensor); });
}
Pending ThreadedCommunicator::start_reduce_scatter(at::Tensor whole, at::Tensor part) {
  if (gpu_ && whole.is_cuda()) return gpu_->start_reduce_scatter(whole, part);
  return start([this, whole, part]() mutable { do_reduce_scatter(whole, part); });
}
Pending ThreadedCommunicator::start_all_gather(at::Tensor part, at::Tensor whole) {
  if (gpu_ && part.is_cuda()) return gpu_->start_all_gather(part, whole);
  return start([this, whole, part]() mutable { do_all_gather(part, whole); });
}
Pending ThreadedCommunicator::start_broadcast(at::Tensor tensor, int root) {
  if (gpu_ && tensor.is_cuda()) return gpu_->start_broadcast(tensor, root);
  return start([this, tensor, root]() mutable { do_broadcast(tensor, root); });
}

}  // namespace satformer
