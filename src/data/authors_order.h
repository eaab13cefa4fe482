// The order in which the SATFormer authors' loader hands out windows, exactly.
//
// Each epoch e begins with numpy's default_rng(seed + e), which shuffles the shards and then, shard by shard, the
// shard's windows. Of every shard's shuffled windows, worker w of ranks x workers takes each (ranks x workers)-th,
// from the w-th on; worker `rank x workers + i` is the i-th of its rank. A worker forms whole batches of what it
// takes from all shards and drops the rest. A rank receives batches from its workers in turn; one that has no more is
// passed over.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "data/windows.h"

namespace satformer {

struct AuthorsOrderOptions {
  std::uint64_t seed = 42;
  std::int64_t batch_size = 1;  // of a micro-batch on one rank
  std::int64_t ranks = 1;
  std::int64_t workers = 16;  // loader processes of a rank; 0 is like 1
};

// Micro-batches of all ranks in turn: rank 0's first, rank 1's first, ..., rank 0's second. An epoch ends when some
// rank has no further batch. Takes 4 bytes a window for an epoch's plan, two of which are kept.
class AuthorsOrder : public WindowOrder {
 public:
  // Error(data) if the windows do not make one batch on every rank.
  AuthorsOrder(std::shared_ptr<const TokenWindows> windows, const AuthorsOrderOptions& options);
  std::int64_t window(std::int64_t n) const override;
  std::int64_t epoch(std::int64_t n) const override { return n / epoch_windows_; }
  std::int64_t epoch_windows() const { return epoch_windows_; }

 private:
  struct Plan {
    std::int64_t epoch = -1;
    std::vector<std::size_t> shards;                  // in this epoch's order, those with windows alone
    std::vector<std::vector<std::uint32_t>> windows;  // shuffled, by shard number
  };
  struct Batch {
    std::int64_t worker, number;
  };
  struct Rank {
    std::int64_t even_rounds = 0;  // rounds in which every worker has a batch
    std::vector<Batch> tail;       // what comes after them
    std::int64_t batches = 0;
  };

  std::int64_t items_of(std::int64_t worker, std::size_t shard) const;
  std::shared_ptr<const Plan> plan_of(std::int64_t epoch) const;
  Batch batch_of(std::int64_t rank, std::int64_t number) const;

  std::shared_ptr<const TokenWindows> windows_;
  AuthorsOrderOptions options_;
  std::int64_t all_workers_;
  std::vector<Rank> ranks_;
  std::int64_t epoch_windows_ = 0;
  mutable std::mutex mutex_;
  mutable std::shared_ptr<const Plan> plans_[2];  // the newest last
};

}  // namespace satformer
