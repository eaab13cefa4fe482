// Micro-batches in training order, read ahead by one background thread.
#pragma once

#include "kernels/tensor.h"

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "data/windows.h"
#include "io/file.h"

namespace satformer {

// A window of T + 1 ids w gives ids w[0..T) and targets w[1..T].
struct Batch {
  at::Tensor ids_BT, targets_BT;  // int64, CPU
};

// Which targets are left; the others become ignore_index.
struct BatchTargets {
  bool inner = false;   // all but the last, which a model makes that is given the ids alone
  bool marked = false;  // those that count; the windows have marks
};

// Reads the given windows into one batch.
Batch read_batch(const WindowSource& windows, std::span<const std::int64_t> numbers, const BatchTargets& which = {});

// Of each step's `windows` consecutive windows, this loader's are [begin, end): a rank's share. They are cut into
// batches of batch_size; the last may be shorter.
struct StepShare {
  std::int64_t windows = 0, begin = 0, end = 0;
};

struct LoaderOptions {
  std::int64_t batch_size = 1;
  std::optional<StepShare> share = {};       // empty: every window, in batches of batch_size
  std::shared_ptr<const WindowOrder> order;  // of the same windows
  BatchTargets targets = {};
  std::int64_t position = 0;    // windows consumed before the first batch
  std::size_t prefetch = 4;     // batches read ahead
  std::string window_log = {};  // appends a line "epoch shard offset" per consumed window; empty: none. With a share,
                                // of all windows of a step when it begins
};

class BatchLoader {
 public:
  BatchLoader(std::shared_ptr<const WindowSource> windows, const LoaderOptions& options);
  ~BatchLoader();
  BatchLoader(const BatchLoader&) = delete;
  BatchLoader& operator=(const BatchLoader&) = delete;

  Batch next();                                               // rethrows what the reader met
  std::int64_t batches_per_step() const { return batches_; }  // 1 without a share
  std::int64_t position() const { return position_; }  // windows consumed in whole steps: all the state there is
  std::int64_t epoch() const { return options_.order->epoch(position_); }

 private:
  void read_ahead();
  void log_windows(std::int64_t first);

  std::shared_ptr<const WindowSource> windows_;
  LoaderOptions options_;
  StepShare share_;
  std::int64_t batches_;
  std::int64_t position_;
  std::int64_t in_step_ = 0;  // batches of the step that were taken
  std::unique_ptr<AppendFile> log_;

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Batch> ready_;
  std::exception_ptr error_;
  bool stop_ = false;
  std::thread reader_;
};

}  // namespace satformer
