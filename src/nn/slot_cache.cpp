#include "nn/slot_cache.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>

#include <algorithm>

#include "base/error.h"

namespace satformer {

// Each row has one slot more, where the pads of a block go. Unused slots are zero or old, always finite: what
// attention weighs with zero must not be NaN.
SlotCache::SlotCache(const ModelConfig& config, std::int64_t rows, std::int64_t capacity, std::int64_t limit,
                     at::ScalarType dtype, at::Device device)
    : KvCache(config, rows, std::min(capacity, limit) + 1, dtype, device),
      limit_(limit),
      lengths_(static_cast<std::size_t>(rows), 0) {
  capacity_ = std::min(capacity, limit);
  for (auto* list : {&keys_, &values_, &sums_}) {
    for (at::Tensor& t : *list) {
      if (t.defined()) t.zero_();
    }
  }
}

void SlotCache::select(std::int64_t first, std::span<const std::int64_t> counts) {
  if (first < 0 || first + std::ssize(counts) > std::ssize(lengths_)) {
    fail(ExitCode::internal, "rows ", first, " to ", first + std::ssize(counts), " of a cache of ", lengths_.size());
  }
  first_ = first;
  counts_.assign(counts.begin(), counts.end());
  longest_ = 0;
  for (std::size_t b = 0; b < counts_.size(); ++b) {
    longest_ = std::max(longest_, lengths_[static_cast<std::size_t>(first) + b] + counts_[b]);
  }
  if (longest_ > limit_) {
    fail(ExitCode::config, "a context of ", longest_, " tokens passes the KV cache's limit of ", limit_);
  }
  if (longest_ > capacity_) grow(std::min(limit_, std::max(longest_, 2 * capacity_)));
}

void SlotCache::grow(std::int64_t capacity) {
  for (auto* list : {&keys_, &values_, &sums_}) {
    for (at::Tensor& t : *list) {
      if (!t.defined()) continue;
      std::vector<std::int64_t> shape = t.sizes().vec();
      shape[1] = capacity + 1;
      const at::Tensor larger = at::zeros(shape, t.options());
      larger.narrow(1, 0, capacity_).copy_(t.narrow(1, 0, capacity_));
      t = larger;
    }
  }
  capacity_ = capacity;
}

std::int64_t SlotCache::length() const {
  const std::int64_t block = counts_.empty() ? 0 : *std::max_element(counts_.begin(), counts_.end());
  return longest_ - block;
}

void SlotCache::clear_row(std::int64_t row) { lengths_[static_cast<std::size_t>(row)] = 0; }

void SlotCache::cut_row(std::int64_t row, std::int64_t length) {
  if (length < 0 || length > row_length(row)) {
    fail(ExitCode::internal, "a row of ", row_length(row), " slots cut to ", length);
  }
  lengths_[static_cast<std::size_t>(row)] = length;
}

void SlotCache::wipe_row(std::int64_t row) {
  for (auto* list : {&keys_, &values_, &sums_}) {
    for (at::Tensor& t : *list) {
      if (t.defined()) t.select(0, row).zero_();
    }
  }
  clear_row(row);
}

void SlotCache::move_row(std::int64_t from, std::int64_t to) {
  if (from == to) return;
  copy_prefix(from, to, row_length(from));
  clear_row(from);
}

void SlotCache::copy_prefix(std::int64_t from, std::int64_t to, std::int64_t length) {
  if (length > row_length(from)) {
    fail(ExitCode::internal, "the first ", length, " slots of a row of ", row_length(from));
  }
  for (auto* list : {&keys_, &values_, &sums_}) {
    for (at::Tensor& t : *list) {
      if (t.defined() && from != to)
        t.select(0, to).narrow(0, 0, length).copy_(t.select(0, from).narrow(0, 0, length));
    }
  }
  lengths_[static_cast<std::size_t>(to)] = length;
}

void SlotCache::begin_block(const at::Tensor& valid_BT) {
  const std::int64_t B = valid_BT.size(0), T = valid_BT.size(1);
  if (B != std::ssize(counts_) || T < *std::max_element(counts_.begin(), counts_.end())) {
    fail(ExitCode::internal, "a pass of ", B, " rows of ", T, " tokens over other rows than were selected");
  }
  block_ = T;
  const at::Tensor tokens = at::empty({B, T}, at::kLong), slots = at::empty({B * T}, at::kLong),
                   last = at::empty({B}, at::kLong), started = at::empty({B, 1, 1}, at::kFloat);
  for (std::int64_t b = 0; b < B; ++b) {
    const std::int64_t row = first_ + b, length = row_length(row), count = counts_[static_cast<std::size_t>(b)];
    for (std::int64_t t = 0; t < T; ++t) {
      tokens.mutable_data_ptr<std::int64_t>()[b * T + t] = length + std::min(t + 1, count);
      slots.mutable_data_ptr<std::int64_t>()[b * T + t] =
          row * (capacity_ + 1) + (t < count ? length + t : capacity_);
    }
    last.mutable_data_ptr<std::int64_t>()[b] = row * (capacity_ + 1) + std::max<std::int64_t>(0, length - 1);
    started.mutable_data_ptr<float>()[b] = length > 0 ? 1.0f : 0.0f;
  }
  const at::Device device = keys_.front().device();
  tokens_ = tokens.to(device);
  slots_ = slots.to(device);
  last_slots_ = last.to(device);
  started_ = started.to(device);
  positions_ = (tokens_ - 1).clamp_min(0);
  query_index_ = positions_;
}

at::Tensor SlotCache::rows_of(const at::Tensor& storage) const {
  return storage.narrow(0, first_, std::ssize(counts_)).narrow(1, 0, std::max<std::int64_t>(1, longest_));
}

std::pair<at::Tensor, at::Tensor> SlotCache::append(std::int64_t layer, const at::Tensor& k_BTHD,
                                                    const at::Tensor& v_BTHD) {
  const auto l = static_cast<std::size_t>(layer);
  keys_[l].flatten(0, 1).index_copy_(0, slots_, k_BTHD.flatten(0, 1).to(keys_[l].scalar_type()));
  if (values_[l].defined()) {
    values_[l].flatten(0, 1).index_copy_(0, slots_, v_BTHD.flatten(0, 1).to(values_[l].scalar_type()));
  }
  return filled(layer);
}

std::pair<at::Tensor, at::Tensor> SlotCache::filled(std::int64_t layer) const {
  const auto l = static_cast<std::size_t>(layer);
  return {rows_of(keys_[l]), rows_of(values_[values_[l].defined() ? l : 0])};
}

at::Tensor SlotCache::add_to_sums(std::int64_t layer, const at::Tensor& x_BTP) {
  const at::Tensor kept = sums_[static_cast<std::size_t>(layer)].flatten(0, 1);
  const at::Tensor before = kept.index_select(0, last_slots_).unsqueeze(1) * started_;
  const at::Tensor sums = running_sums(x_BTP, before);
  kept.index_copy_(0, slots_, sums.flatten(0, 1));
  return sums;
}

void SlotCache::end_block() {
  for (std::size_t b = 0; b < counts_.size(); ++b) lengths_[static_cast<std::size_t>(first_) + b] += counts_[b];
  block_ = 0;
}

}  // namespace satformer
