// Learning rate of each step: linear warmup, then decay to a floor.
//   step s < w:  lr (s + 1) / w
//   s >= n:      lr_min                                  (also if n <= w)
//   otherwise:   lr_min + c (lr - lr_min),  p = (s - w) / (n - w),  c = (1 + cos pi p) / 2 | 1 - p | 1
// w and n count steps: token budgets divided by the tokens of a step. "constant" keeps lr to the end.
#pragma once

#include <cstdint>
#include <string_view>

namespace satformer {

enum class DecayStyle { cosine, linear, constant };
DecayStyle decay_style(std::string_view name);  // Error(config) for another name

struct Schedule {
  double learning_rate = 0, min_lr = 0;
  std::int64_t warmup_steps = 0, total_steps = 0;
  DecayStyle style = DecayStyle::cosine;

  double rate(std::int64_t step) const;  // step counts from 0
};

}  // namespace satformer
