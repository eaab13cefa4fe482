// Means over tokens with their uncertainty over windows: tokens of a window are not independent, windows nearly are.
#pragma once

#include <string>
#include <vector>

#include "base/bootstrap.h"
#include "base/json.h"
#include "kernels/tensor.h"

namespace satformer {

struct Estimate {
  double value = 0;   // sum over windows / count over windows; NaN without tokens
  Interval interval;  // 95 %, bootstrap over windows
  std::int64_t tokens = 0;
};

// Of values [W, T] over the tokens that `where` (bool [W, T]; undefined: all) marks. Draws follow from `name`.
Estimate window_estimate(const at::Tensor& values_WT, const at::Tensor& where_WT, std::int64_t resamples,
                         const std::string& name);

// Means of two groups of independent values and the interval of second - first, each group drawn by itself.
struct GroupDifference {
  double first = 0, second = 0;
  Interval interval;
};
GroupDifference group_difference(const std::vector<double>& first, const std::vector<double>& second,
                                 std::int64_t resamples, const std::string& name);

Json estimate_json(const Estimate& estimate);  // {"value", "low", "high", "tokens"}

}  // namespace satformer
