// A few threads for work that would keep the server's or the engine's waiting: reading and writing JSON, tokenising.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace satformer::serve {

class Workers {
 public:
  explicit Workers(int threads) {
    for (int i = 0; i < threads; ++i) threads_.emplace_back([this] { loop(); });
  }
  ~Workers() { stop(); }
  // Work that has not begun is dropped, and so is what is posted later.
  void stop() {
    std::deque<std::function<void()>> dropped;
    {
      const std::lock_guard lock(mutex_);
      stopping_ = true;
      dropped.swap(queue_);
    }
    wake_.notify_all();
    for (std::thread& thread : threads_) thread.join();
    threads_.clear();
  }
  Workers(const Workers&) = delete;
  Workers& operator=(const Workers&) = delete;

  // `work` must not throw.
  void post(std::function<void()> work) {
    {
      const std::lock_guard lock(mutex_);
      if (stopping_) return;
      queue_.push_back(std::move(work));
    }
    wake_.notify_one();
  }

 private:
  void loop() {
    for (;;) {
      std::function<void()> work;
      {
        std::unique_lock lock(mutex_);
        wake_.wait(lock, [this] { return stopping_ || !queue_.empty(); });
        if (stopping_) return;
        work = std::move(queue_.front());
        queue_.pop_front();
      }
      work();
    }
  }

  std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<std::function<void()>> queue_;
  bool stopping_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace satformer::serve
