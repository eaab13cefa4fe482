// One producer, several workers, one consumer that sees results in the order of production. At most `capacity` items
// are between producer and consumer. An exception of a worker, or of the producer, reaches the consumer at its place
// in that order, so that what goes wrong first in the input is what is reported, whatever the number of workers.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

namespace satformer {

template <class In, class Out>
class OrderedPipeline {
 public:
  // `produce` fills an item and returns false at the end; `work` is called by several threads at once.
  OrderedPipeline(std::function<bool(In&)> produce, std::function<Out(In&)> work, int workers)
      : capacity_(static_cast<std::size_t>(workers) * 4) {
    threads_.emplace_back([this, produce = std::move(produce)] { run_producer(produce); });
    for (int i = 0; i < workers; ++i) threads_.emplace_back([this, work] { run_worker(work); });
  }
  ~OrderedPipeline() {
    {
      const std::lock_guard lock(mutex_);
      stopped_ = true;
    }
    changed_.notify_all();
    for (std::thread& thread : threads_) thread.join();
  }
  OrderedPipeline(const OrderedPipeline&) = delete;
  OrderedPipeline& operator=(const OrderedPipeline&) = delete;

  // The next result; nothing at the end.
  std::optional<Out> pop() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return slots_.empty() ? finished_ : slots_.front()->done; });
    if (slots_.empty()) return std::nullopt;
    const std::unique_ptr<Slot> slot = std::move(slots_.front());
    slots_.pop_front();
    lock.unlock();
    changed_.notify_all();
    if (slot->error) std::rethrow_exception(slot->error);
    return std::move(slot->out);
  }

 private:
  struct Slot {
    In in{};
    Out out{};
    std::exception_ptr error;
    bool done = false;
  };

  void run_producer(const std::function<bool(In&)>& produce) {
    for (bool more = true; more;) {
      auto slot = std::make_unique<Slot>();
      try {
        more = produce(slot->in);
      } catch (...) {
        slot->error = std::current_exception();
        slot->done = true;
      }
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [&] { return stopped_ || slots_.size() < capacity_; });
      if (stopped_) return;
      const bool failed = slot->error != nullptr;
      if (more && !failed) waiting_.push_back(slot.get());
      if (more) slots_.push_back(std::move(slot));
      if (failed) more = false;
      if (!more) finished_ = true;
      lock.unlock();
      changed_.notify_all();
    }
  }

  void run_worker(const std::function<Out(In&)>& work) {
    for (;;) {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [&] { return stopped_ || finished_ || !waiting_.empty(); });
      if (stopped_ || waiting_.empty()) return;
      Slot* slot = waiting_.front();
      waiting_.pop_front();
      lock.unlock();
      try {
        slot->out = work(slot->in);
      } catch (...) {
        slot->error = std::current_exception();
      }
      lock.lock();
      slot->in = In{};
      slot->done = true;
      lock.unlock();
      changed_.notify_all();
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::unique_ptr<Slot>> slots_;  // in order
  std::deque<Slot*> waiting_;                // for a worker
  std::size_t capacity_;
  bool finished_ = false, stopped_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace satformer
