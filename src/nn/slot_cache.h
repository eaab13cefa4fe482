// A KV cache whose rows have lengths of their own: sequences come and go while others run. A pass works on
// neighbouring rows; each of them goes on at its own length with its own number of new tokens, padded on the right.
#pragma once

#include <span>
#include <vector>

#include "nn/kv_cache.h"

namespace satformer {

class SlotCache : public KvCache {
 public:
  // Memory is taken for `capacity` slots of each row at first and grows with the longest row, up to `limit`.
  SlotCache(const ModelConfig& config, std::int64_t rows, std::int64_t capacity, std::int64_t limit,
            at::ScalarType dtype, at::Device device);

  // Before each pass: it works on the rows from `first` on, and row first + b gets counts[b] new tokens (0: none).
  void select(std::int64_t first, std::span<const std::int64_t> counts);
  std::int64_t row_length(std::int64_t row) const { return lengths_[static_cast<std::size_t>(row)]; }
  void clear_row(std::int64_t row);                     // forgets its tokens
  void cut_row(std::int64_t row, std::int64_t length);  // forgets those from `length` on
  void wipe_row(std::int64_t row);                      // and overwrites them: they may not be finite
  void move_row(std::int64_t from, std::int64_t to);    // `from` is empty afterwards
  void copy_prefix(std::int64_t from, std::int64_t to, std::int64_t length);  // the first slots of another row

  void begin_block(const at::Tensor& valid_BT) override;
  std::pair<at::Tensor, at::Tensor> append(std::int64_t layer, const at::Tensor& k_BTHD,
                                           const at::Tensor& v_BTHD) override;
  std::pair<at::Tensor, at::Tensor> filled(std::int64_t layer) const override;
  at::Tensor add_to_sums(std::int64_t layer, const at::Tensor& x_BTP) override;
  void end_block() override;
  at::Tensor key_valid_BS() const override { return {}; }  // causality alone hides what is not there
  std::int64_t length() const override;

 private:
  void grow(std::int64_t capacity);
  at::Tensor rows_of(const at::Tensor& storage) const;

  std::int64_t limit_, first_ = 0, longest_ = 0;  // longest_: of the rows of this pass, with their new tokens
  std::vector<std::int64_t> lengths_, counts_;
  at::Tensor slots_, last_slots_, started_;  // of the block, flat over rows and slots; the slot before it, if any
};

}  // namespace satformer
