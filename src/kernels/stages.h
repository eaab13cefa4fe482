// Loops that follow one another on one team of threads, within one parallel region: for passes of so many short loops
// that starting and ending a region for each would cost more than some of them. What is computed does not depend on
// the number of threads as long as no part's result depends on how parts are grouped.
#pragma once

#include <cstdint>
#include <exception>
#include <functional>
#include <mutex>
#include <span>
#include <vector>

namespace satformer {

class Stages {
 public:
  using Body = std::function<void(std::int64_t begin, std::int64_t end)>;
  // body(begin, end) for all of [0, parts), each part once, on whichever thread is free. `work`: the elements that
  // one part touches; less than a few thousand are not shared out. A stage begins when the one before is done.
  // `reads`: memory that parts from `first` on will read in this order; a thread that waits for an earlier stage asks
  // for what it will read of it.
  using Reads = std::function<std::span<const char>(std::int64_t first)>;
  void add(std::int64_t parts, std::int64_t work, Body body, Reads reads = {});
  // Runs all, on as many threads as libtorch uses if the work is worth it. Once. The first exception that a body
  // throws is thrown here, and the stages behind it are left out.
  void run();

 private:
  struct Stage {
    std::int64_t parts, least;  // least: parts taken at once
    Body body;
    Reads reads;
  };
  class Progress;
  class Asking;
  void work(Progress& progress, std::size_t thread);

  std::vector<Stage> stages_;
  std::int64_t elements_ = 0;
  std::mutex mutex_;
  std::exception_ptr error_;
};

}  // namespace satformer
