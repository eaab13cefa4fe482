#include "nn/kv_cache.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/cumsum.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>

#include "base/error.h"

namespace satformer {

KvCache::KvCache(const ModelConfig& config, std::int64_t batch, std::int64_t capacity, at::ScalarType dtype,
                 at::Device device)
    : capacity_(capacity) {
  const auto options = at::TensorOptions().dtype(dtype).device(device);
  for (std::int64_t layer = 0; layer < config.num_hidden_layers; ++layer) {
    keys_.push_back(at::empty({batch, capacity, config.kv_heads(), config.head_dim()}, options));
    values_.push_back(config.projects_values(layer)
                          ? at::empty({batch, capacity, config.kv_heads(), config.head_dim()}, options)
                          : at::Tensor());
    const std::int64_t width = config.running_gate_width(layer);
    sums_.push_back(width > 0 ? at::empty({batch, capacity, width}, options.dtype(at::kFloat)) : at::Tensor());
  }
  valid_BS_ = at::zeros({batch, capacity}, options.dtype(at::kBool));
  count_B_ = at::zeros({batch}, options.dtype(at::kLong));
}

void KvCache::begin_block(const at::Tensor& valid_BT) {
  const std::int64_t block = valid_BT.size(1);
  if (valid_BT.size(0) != valid_BS_.size(0)) {
    fail(ExitCode::internal, "KV cache for ", valid_BS_.size(0), " rows is given a block of ", valid_BT.size(0));
  }
  if (length_ + block > capacity_) {
    fail(ExitCode::config, "context of ", length_ + block, " tokens passes the KV cache's capacity of ", capacity_);
  }
  block_ = block;
  valid_BS_.narrow(1, length_, block).copy_(valid_BT);
  tokens_ = count_B_.unsqueeze(1) + at::cumsum(valid_BT.to(at::kLong), 1);
  positions_ = (tokens_ - 1).clamp_min(0);
  query_index_ = (at::arange(block, positions_.options()) + length_).unsqueeze(0).expand({valid_BT.size(0), block});
  count_B_ = count_B_ + valid_BT.sum(1, false, at::kLong);
}

std::pair<at::Tensor, at::Tensor> KvCache::append(std::int64_t layer, const at::Tensor& k_BTHD,
                                                  const at::Tensor& v_BTHD) {
  const auto l = static_cast<std::size_t>(layer);
  keys_[l].narrow(1, length_, block_).copy_(k_BTHD);
  if (values_[l].defined()) values_[l].narrow(1, length_, block_).copy_(v_BTHD);
  return filled(layer);
}

std::pair<at::Tensor, at::Tensor> KvCache::filled(std::int64_t layer) const {
  const auto l = static_cast<std::size_t>(layer);
  const at::Tensor& values = values_[values_[l].defined() ? l : 0];
  return {keys_[l].narrow(1, 0, length_ + block_), values.narrow(1, 0, length_ + block_)};
}

at::Tensor KvCache::running_sums(const at::Tensor& x_BTP, const at::Tensor& before) {
  constexpr std::int64_t few = 16;
  const std::int64_t T = x_BTP.size(1);
  if (T > few) return before.defined() ? at::cumsum(x_BTP, 1) + before : at::cumsum(x_BTP, 1);
  // libtorch's cumsum adds in fp64; one token after the other is added in fp32.
  at::Tensor sums = x_BTP.clone(), last = before;
  for (std::int64_t t = 0; t < T; ++t) {
    at::Tensor sum = sums.narrow(1, t, 1);
    if (last.defined()) sum.add_(last);
    last = sum;
  }
  return sums;
}

at::Tensor KvCache::add_to_sums(std::int64_t layer, const at::Tensor& x_BTP) {
  const at::Tensor& kept = sums_[static_cast<std::size_t>(layer)];
  const at::Tensor sums = running_sums(x_BTP, length_ > 0 ? kept.narrow(1, length_ - 1, 1) : at::Tensor());
  kept.narrow(1, length_, block_).copy_(sums);
  return sums;
}

void KvCache::end_block() {
  length_ += block_;
  block_ = 0;
}

at::Tensor KvCache::key_valid_BS() const { return valid_BS_.narrow(1, 0, length_ + block_); }

std::int64_t KvCache::bytes() const {
  std::int64_t total = 0;
  for (const auto* list : {&keys_, &values_, &sums_}) {
    for (const auto& t : *list) total += t.defined() ? t.numel() * t.element_size() : 0;
  }
  return total;
}

void KvCache::truncate(std::int64_t length) {
  if (length < 0 || length > length_) fail(ExitCode::internal, "KV cache of ", length_, " cut to ", length);
  valid_BS_.narrow(1, length, capacity_ - length).zero_();
  count_B_ = valid_BS_.sum(1, false, at::kLong);
  length_ = length;
}

void KvCache::select_rows(const at::Tensor& rows) {
  for (auto* list : {&keys_, &values_, &sums_}) {
    for (auto& t : *list) {
      if (t.defined()) t = t.index_select(0, rows);
    }
  }
  valid_BS_ = valid_BS_.index_select(0, rows);
  count_B_ = count_B_.index_select(0, rows);
}

}  // namespace satformer
