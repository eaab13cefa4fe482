#include "data/authors_order.h"

#include <algorithm>
#include <numeric>

#include "base/error.h"
#include "data/numpy_random.h"

namespace satformer {

AuthorsOrder::AuthorsOrder(std::shared_ptr<const TokenWindows> windows, const AuthorsOrderOptions& options)
    : windows_(std::move(windows)), options_(options) {
  options_.workers = std::max<std::int64_t>(options_.workers, 1);
  if (options_.batch_size < 1 || options_.ranks < 1) {
    fail(ExitCode::internal, "the authors' order needs a batch size and ranks, not ", options_.batch_size, " and ",
         options_.ranks);
  }
  all_workers_ = options_.ranks * options_.workers;
  std::int64_t rounds = INT64_MAX;
  for (std::int64_t r = 0; r < options_.ranks; ++r) {
    Rank rank;
    std::vector<std::int64_t> batches;
    for (std::int64_t i = 0; i < options_.workers; ++i) {
      std::int64_t items = 0;
      for (std::size_t shard = 0; shard < windows_->num_shards(); ++shard) {
        items += items_of(r * options_.workers + i, shard);
      }
      batches.push_back(items / options_.batch_size);
    }
    rank.even_rounds = *std::min_element(batches.begin(), batches.end());
    const std::int64_t most = *std::max_element(batches.begin(), batches.end());
    for (std::int64_t round = rank.even_rounds; round < most; ++round) {
      for (std::int64_t i = 0; i < options_.workers; ++i) {
        if (batches[static_cast<std::size_t>(i)] > round) rank.tail.push_back({i, round});
      }
    }
    rank.batches = std::accumulate(batches.begin(), batches.end(), std::int64_t{0});
    rounds = std::min(rounds, rank.batches);
    ranks_.push_back(std::move(rank));
  }
  epoch_windows_ = rounds * options_.ranks * options_.batch_size;
  if (rounds == 0) {
    fail(ExitCode::data, "data.order authors: ", windows_->size(), " windows give no whole batch of ",
         options_.batch_size, " on each of ", options_.ranks, " ranks with ", options_.workers, " workers");
  }
}

std::int64_t AuthorsOrder::items_of(std::int64_t worker, std::size_t shard) const {
  const std::int64_t left = windows_->shard_windows(shard) - worker;
  return left > 0 ? (left + all_workers_ - 1) / all_workers_ : 0;
}

std::shared_ptr<const AuthorsOrder::Plan> AuthorsOrder::plan_of(std::int64_t epoch) const {
  const std::lock_guard lock(mutex_);
  for (const auto& plan : plans_) {
    if (plan && plan->epoch == epoch) return plan;
  }
  auto plan = std::make_shared<Plan>();
  plan->epoch = epoch;
  NumpyRandom random(options_.seed + static_cast<std::uint64_t>(epoch));
  std::vector<std::size_t> shards(windows_->num_shards());
  std::iota(shards.begin(), shards.end(), std::size_t{0});
  random.shuffle(shards);
  plan->windows.resize(shards.size());
  for (const std::size_t shard : shards) {
    const std::int64_t size = windows_->shard_windows(shard);
    if (size == 0) continue;
    if (size > UINT32_MAX) fail(ExitCode::data, "data.order authors: a shard of ", size, " windows is too long");
    plan->shards.push_back(shard);
    plan->windows[shard].resize(static_cast<std::size_t>(size));
    std::iota(plan->windows[shard].begin(), plan->windows[shard].end(), std::uint32_t{0});
    random.shuffle(plan->windows[shard]);
  }
  plans_[0] = std::move(plans_[1]);
  plans_[1] = plan;
  return plan;
}

AuthorsOrder::Batch AuthorsOrder::batch_of(std::int64_t rank, std::int64_t number) const {
  const Rank& r = ranks_[static_cast<std::size_t>(rank)];
  const std::int64_t even = r.even_rounds * options_.workers;
  if (number < even) return {number % options_.workers, number / options_.workers};
  return r.tail[static_cast<std::size_t>(number - even)];
}

std::int64_t AuthorsOrder::window(std::int64_t n) const {
  const std::shared_ptr<const Plan> plan = plan_of(epoch(n));
  const std::int64_t in_epoch = n % epoch_windows_, micro_batch = in_epoch / options_.batch_size;
  const std::int64_t rank = micro_batch % options_.ranks;
  const Batch batch = batch_of(rank, micro_batch / options_.ranks);
  const std::int64_t worker = rank * options_.workers + batch.worker;
  std::int64_t item = batch.number * options_.batch_size + in_epoch % options_.batch_size;
  for (const std::size_t shard : plan->shards) {
    const std::int64_t items = items_of(worker, shard);
    if (item < items) {
      const auto place = static_cast<std::size_t>(worker + item * all_workers_);
      return windows_->first_window(shard) + plan->windows[shard][place];
    }
    item -= items;
  }
  fail(ExitCode::internal, "the authors' order has no window ", n);
}

}  // namespace satformer
