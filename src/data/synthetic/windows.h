// Windows made as they are read: example n is window n.
#pragma once

#include "data/synthetic/task.h"
#include "data/window_source.h"

namespace satformer {

// Example numbers of the three uses, apart from one another.
inline constexpr std::int64_t training_examples = 0;
inline constexpr std::int64_t validation_examples = std::int64_t{1} << 40;
inline constexpr std::int64_t evaluation_examples = std::int64_t{1} << 41;

// Windows as the files of `prepare --synthetic` give them, byte for byte: a window's last id is the first one of the
// example after it.
class SyntheticWindows : public WindowSource {
 public:
  // Examples first..first + count - 1. `tokenizer` (null for tasks without text) outlives it. Error(config) for
  // options that no example fits, or a task of text without a tokenizer.
  SyntheticWindows(const SyntheticOptions& options, const Tokenizer* tokenizer, std::int64_t first,
                   std::int64_t count);

  std::int64_t size() const override { return count_; }
  std::int64_t seq_length() const override { return options_.seq_length; }
  bool has_marks() const override { return true; }
  using WindowSource::read;
  void read(std::int64_t window, std::span<std::int64_t> ids, std::span<TokenMark> marks) const override;
  Place place(std::int64_t window) const override { return {0, window * options_.seq_length}; }

  SyntheticExample example(std::int64_t window) const;  // also the one after the last window
  // Ids are below it.
  std::int64_t vocab_size() const { return vocab_size_; }

 private:
  SyntheticOptions options_;
  ExampleMaker make_;
  std::int64_t first_, count_, vocab_size_;
};

}  // namespace satformer
