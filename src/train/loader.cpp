#include "train/loader.h"

#include <ATen/ops/empty.h>

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "kernels/linear_cross_entropy/linear_cross_entropy.h"
#include "train/window_log.h"

namespace satformer {

Batch read_batch(const WindowSource& windows, std::span<const std::int64_t> numbers, const BatchTargets& which) {
  const std::int64_t T = windows.seq_length(), B = static_cast<std::int64_t>(numbers.size());
  Batch batch{at::empty({B, T}, at::kLong), at::empty({B, T}, at::kLong)};
  std::vector<std::int64_t> window(static_cast<std::size_t>(T) + 1);
  std::vector<TokenMark> marks(which.marked ? window.size() : 0);
  auto* ids = batch.ids_BT.data_ptr<std::int64_t>();
  auto* targets = batch.targets_BT.data_ptr<std::int64_t>();
  for (std::int64_t row = 0; row < B; ++row) {
    windows.read(numbers[static_cast<std::size_t>(row)], window, marks);
    std::copy(window.begin(), window.end() - 1, ids + row * T);
    for (std::size_t t = 0; t < marks.size(); ++t) {
      if (!marks[t].counted()) window[t] = ignore_index;
    }
    if (which.inner) window.back() = ignore_index;
    std::copy(window.begin() + 1, window.end(), targets + row * T);
  }
  return batch;
}

BatchLoader::BatchLoader(std::shared_ptr<const WindowSource> windows, const LoaderOptions& options)
    : windows_(std::move(windows)),
      options_(options),
      share_(options.share.value_or(StepShare{options.batch_size, 0, options.batch_size})),
      batches_((share_.end - share_.begin + options.batch_size - 1) / options.batch_size),
      position_(options.position) {
  if (!options_.window_log.empty()) {
    cut_window_log(options_.window_log, *windows_, *options_.order, position_);
    log_ = std::make_unique<AppendFile>(options_.window_log);
  }
  reader_ = std::thread([this] { read_ahead(); });
}

BatchLoader::~BatchLoader() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  reader_.join();
}

void BatchLoader::read_ahead() {
  try {
    for (std::int64_t n = 0;; ++n) {
      const std::int64_t step = options_.position + n / batches_ * share_.windows;
      const std::int64_t begin = share_.begin + n % batches_ * options_.batch_size;
      const std::int64_t end = std::min(begin + options_.batch_size, share_.end);
      std::vector<std::int64_t> numbers;
      for (std::int64_t i = begin; i < end; ++i) numbers.push_back(options_.order->window(step + i));
      Batch batch = read_batch(*windows_, numbers, options_.targets);
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [&] { return stop_ || ready_.size() < options_.prefetch; });
      if (stop_) return;
      ready_.push_back(std::move(batch));
      changed_.notify_all();
    }
  } catch (...) {
    const std::lock_guard lock(mutex_);
    error_ = std::current_exception();
    changed_.notify_all();
  }
}

Batch BatchLoader::next() {
  Batch batch;
  {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return error_ || !ready_.empty(); });
    if (ready_.empty()) std::rethrow_exception(error_);
    batch = std::move(ready_.front());
    ready_.pop_front();
  }
  changed_.notify_all();
  if (log_ && in_step_ == 0) log_windows(position_);
  if (++in_step_ == batches_) {
    in_step_ = 0;
    position_ += share_.windows;
  }
  return batch;
}

void BatchLoader::log_windows(std::int64_t first) {
  std::string lines;
  for (std::int64_t n = first; n < first + share_.windows; ++n) {
    lines += window_line(*windows_, *options_.order, n);
  }
  log_->append(lines);
}

}  // namespace satformer
