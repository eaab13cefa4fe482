// Medians and their uncertainty for repeated measurements.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/bootstrap.h"

namespace satformer {

double median(std::vector<double> values);  // mean of the middle two for an even number; NaN for none

// 95 % percentile-bootstrap interval of the median (10,000 resamples drawn from `seed`).
Interval bootstrap_median(std::span<const double> values, std::uint64_t seed = 1);

}  // namespace satformer
