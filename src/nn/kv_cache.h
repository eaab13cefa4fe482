// Keys and values of past positions, per layer and row. Holds post-RoPE keys and post-mix values, so that every
// architecture needs at most a Transformer's bytes; layer 0's values are never kept apart, and layers without a value
// projection (SVFormer) share them. Gates over a running mean add their running sums, a few numbers per slot.
#pragma once

#include "kernels/tensor.h"

#include <vector>

#include "nn/model_config.h"

namespace satformer {

class KvCache {
 public:
  KvCache(const ModelConfig& config, std::int64_t batch, std::int64_t capacity, at::ScalarType dtype,
          at::Device device);
  virtual ~KvCache() = default;
  KvCache(const KvCache&) = default;
  KvCache(KvCache&&) = default;
  KvCache& operator=(const KvCache&) = default;
  KvCache& operator=(KvCache&&) = default;

  // Called by the stack once per forward, before the layers: `valid_BT` (bool) marks real tokens of the new block.
  // Error(config) if the block would pass the capacity, with both numbers.
  virtual void begin_block(const at::Tensor& valid_BT);
  // Stores the block of one layer and returns all keys and values so far, [B, S, Hkv, D].
  virtual std::pair<at::Tensor, at::Tensor> append(std::int64_t layer, const at::Tensor& k_BTHD,
                                                   const at::Tensor& v_BTHD);
  // All keys and values of one layer, as append() returns them, with room for the block.
  virtual std::pair<at::Tensor, at::Tensor> filled(std::int64_t layer) const;
  // x [B, T, P], fp32, zero at pads: for each token of the block the sum over the row's tokens so far, itself
  // included. P is config.running_gate_width(layer). Once per layer and block.
  // A block of few tokens gives the bits of as many blocks of one.
  virtual at::Tensor add_to_sums(std::int64_t layer, const at::Tensor& x_BTP);
  virtual void end_block();

  const at::Tensor& positions_BT() const { return positions_; }      // RoPE position of each token of the block
  const at::Tensor& query_index_BT() const { return query_index_; }  // slot of each token of the block
  const at::Tensor& tokens_BT() const { return tokens_; }  // tokens of the row up to each of the block, pads left out
  virtual at::Tensor key_valid_BS() const;                 // bool over slots so far, this block included
  virtual std::int64_t length() const { return length_; }  // slots filled by finished blocks
  std::int64_t capacity() const { return capacity_; }
  std::int64_t bytes() const;
  void truncate(std::int64_t length);        // forgets slots from `length` on
  void select_rows(const at::Tensor& rows);  // keeps these batch rows, in this order

 protected:
  // Running sums along T that go on from `before` [B, 1, P] (undefined: from zero).
  static at::Tensor running_sums(const at::Tensor& x_BTP, const at::Tensor& before);

  std::int64_t capacity_, length_ = 0, block_ = 0;
  std::vector<at::Tensor> keys_, values_;  // [B, capacity, Hkv, D]; values undefined: layer 0's
  std::vector<at::Tensor> sums_;           // [B, capacity, P] up to each slot, fp32; undefined: none
  at::Tensor valid_BS_, count_B_, tokens_, positions_, query_index_;
};

}  // namespace satformer
