#include "kernels/stages.h"

#include <sched.h>

#include <algorithm>
#include <atomic>

#include "kernels/parallel.h"

namespace satformer {
namespace {

// Looks at what another thread is finishing before this one lets others run: some tens of microseconds.
constexpr int looks_before_yielding = 2000;

void wait_a_little(int looks) {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
  if (looks > looks_before_yielding) sched_yield();
}

// Aligned as an atomic of its size is: Clang otherwise asks libatomic for it.
struct alignas(8) Range {
  std::uint32_t begin, end;
  std::int64_t size() const { return std::int64_t{end} - begin; }
};

}  // namespace

// Of each stage the parts that are not taken, a range of neighbours for each thread, and how many are done. A thread
// takes from the front of its own range, so that it reads memory in order, then half of what another has left, from
// the back.
class Stages::Progress {
 public:
  Progress(const std::vector<Stage>& stages, std::size_t threads)
      : threads_(threads), ranges_(stages.size() * threads), done_(stages.size()) {
    for (std::size_t s = 0; s < stages.size(); ++s) {
      const auto parts = static_cast<std::size_t>(stages[s].parts);
      for (std::size_t t = 0; t < threads; ++t) {
        range(s, t).store(
            {static_cast<std::uint32_t>(parts * t / threads), static_cast<std::uint32_t>(parts * (t + 1) / threads)},
            std::memory_order_relaxed);
      }
    }
  }

  // A third of what is left of the thread's range, but `least` parts if there are so many; none if all are taken.
  Range take(std::size_t stage, std::size_t thread, std::int64_t least) {
    std::atomic<Range>& own = range(stage, thread);
    for (;;) {
      Range r = own.load(std::memory_order_relaxed);
      while (r.size() > 0) {
        const auto count = std::min(r.size(), std::max(least, r.size() / 3));
        const Range taken{r.begin, r.begin + static_cast<std::uint32_t>(count)};
        if (own.compare_exchange_weak(r, {taken.end, r.end}, std::memory_order_relaxed)) return taken;
      }
      if (!fetch(stage, thread, least)) return {0, 0};
    }
  }

  std::size_t threads() const { return threads_; }
  std::atomic<std::int64_t>& done(std::size_t stage) { return done_[stage].value; }
  std::atomic<bool> failed{false};

 private:
  struct alignas(64) Line {
    std::atomic<std::int64_t> value{0};
  };
  struct alignas(64) RangeLine {
    std::atomic<Range> value{Range{0, 0}};
  };
  std::atomic<Range>& range(std::size_t stage, std::size_t thread) {
    return ranges_[stage * threads_ + thread].value;
  }

  // Moves parts of another thread to this one's range, which is empty and therefore touched by nobody else.
  bool fetch(std::size_t stage, std::size_t thread, std::int64_t least) {
    for (std::size_t i = 1; i < threads_; ++i) {
      std::atomic<Range>& other = range(stage, (thread + i) % threads_);
      Range r = other.load(std::memory_order_relaxed);
      while (r.size() > 0) {
        const auto count = static_cast<std::uint32_t>(std::min(r.size(), std::max(least, r.size() / 2)));
        if (!other.compare_exchange_weak(r, {r.begin, r.end - count}, std::memory_order_relaxed)) continue;
        range(stage, thread).store({r.end - count, r.end}, std::memory_order_relaxed);
        return true;
      }
    }
    return false;
  }

  std::size_t threads_;
  std::vector<RangeLine> ranges_;
  std::vector<Line> done_;
};

// What a thread asks for while it waits: the start of its own part of the next stage that says what it reads.
class Stages::Asking {
 public:
  Asking(const std::vector<Stage>& stages, std::size_t thread, std::size_t threads)
      : stages_(stages), thread_(thread), threads_(threads) {}

  void a_little(std::size_t waiting_in) {
    if (next_ <= waiting_in) look_from(waiting_in + 1);
    const std::size_t end = std::min(asked_ + 4 * line, std::min(left_.size(), most));
    for (; asked_ < end; asked_ += line) __builtin_prefetch(left_.data() + asked_, 0, 2);
  }

 private:
  static constexpr std::size_t line = 64, most = 256 << 10;  // bytes; a part of a second-level cache

  void look_from(std::size_t stage) {
    for (next_ = stage; next_ < stages_.size() && !stages_[next_].reads; ++next_) {
    }
    left_ = {};
    asked_ = 0;
    if (next_ == stages_.size()) return;
    const auto parts = static_cast<std::size_t>(stages_[next_].parts);
    left_ = stages_[next_].reads(static_cast<std::int64_t>(parts * thread_ / threads_));
  }

  const std::vector<Stage>& stages_;
  std::size_t thread_, threads_, next_ = 0, asked_ = 0;
  std::span<const char> left_;
};

void Stages::add(std::int64_t parts, std::int64_t work, Body body, Reads reads) {
  if (parts <= 0) return;
  elements_ += parts * work;
  const std::int64_t least = std::max<std::int64_t>(1, elements_worth_a_thread / std::max<std::int64_t>(1, work));
  stages_.push_back({parts, least, std::move(body), std::move(reads)});
}

void Stages::work(Progress& progress, std::size_t thread) {
  Asking asking(stages_, thread, progress.threads());
  for (std::size_t i = 0; i < stages_.size(); ++i) {
    const Stage& stage = stages_[i];
    std::atomic<std::int64_t>& done = progress.done(i);
    for (Range part = progress.take(i, thread, stage.least); part.size() > 0;
         part = progress.take(i, thread, stage.least)) {
      if (!progress.failed.load(std::memory_order_relaxed)) {
        try {
          stage.body(part.begin, part.end);
        } catch (...) {
          const std::lock_guard lock(mutex_);
          if (!error_) error_ = std::current_exception();
          progress.failed.store(true, std::memory_order_relaxed);
        }
      }
      done.fetch_add(part.size(), std::memory_order_release);
    }
    // A thread that comes late finds all parts taken; nobody waits for it.
    for (int looks = 0; done.load(std::memory_order_acquire) < stage.parts; ++looks) {
      asking.a_little(i);
      wait_a_little(looks);
    }
  }
}

void Stages::run() {
  const std::int64_t threads = threads_for(elements_ / elements_worth_a_thread);
  Progress progress(stages_, static_cast<std::size_t>(threads));
  on_threads(threads, [&](std::int64_t thread) { work(progress, static_cast<std::size_t>(thread)); });
  if (error_) std::rethrow_exception(error_);
}

}  // namespace satformer
