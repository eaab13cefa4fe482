// Which heads open their gates on the same tokens.
#pragma once

#include "analysis/measurement.h"

namespace satformer {

// Pearson's correlation over tokens of every two of the tracks' heads, fp64 [N, N], N = tracks x heads, track-major.
// NaN where a head's gates do not vary.
at::Tensor head_correlations(const std::vector<GateTrack>& tracks);

}  // namespace satformer
