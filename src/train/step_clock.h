// Where the time of training steps goes.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>

namespace satformer {

// data: waiting for the loader. communication: what the ranks keep each other waiting for beyond backward. optimizer:
// norm, clipping, update. On a GPU work is queued, and its time counts where its result is read: in backward.
enum class StepPart { data, forward, backward, optimizer, communication };
inline constexpr std::array<const char*, 5> step_part_names = {"data", "forward", "backward", "optimizer",
                                                               "communication"};

class StepClock {
 public:
  void begin() { last_ = Clock::now(); }
  // What passed since begin() or the last end() was `part`.
  void end(StepPart part) {
    const Clock::time_point now = Clock::now();
    seconds_[static_cast<std::size_t>(part)] += std::chrono::duration<double>(now - last_).count();
    last_ = now;
  }
  void end_step() { ++steps_; }
  std::int64_t steps() const { return steps_; }
  // Seconds a step since the start or clear().
  double mean(StepPart part) const {
    return steps_ > 0 ? seconds_[static_cast<std::size_t>(part)] / static_cast<double>(steps_) : 0;
  }
  void clear() {
    seconds_ = {};
    steps_ = 0;
  }

 private:
  using Clock = std::chrono::steady_clock;
  Clock::time_point last_ = Clock::now();
  std::array<double, 5> seconds_ = {};
  std::int64_t steps_ = 0;
};

}  // namespace satformer
