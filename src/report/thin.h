// Fewer points for the same picture.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace satformer {

// Indices, rising, of the points to draw: of each run of points in the same column of pixels the first, the lowest,
// the highest and the last. `xs` are pixels, as many as ys; all finite.
std::vector<std::size_t> thin_points(std::span<const double> xs, std::span<const double> ys);

}  // namespace satformer
