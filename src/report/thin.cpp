#include "report/thin.h"

#include <algorithm>
#include <cmath>

namespace satformer {

std::vector<std::size_t> thin_points(std::span<const double> xs, std::span<const double> ys) {
  std::vector<std::size_t> kept;
  for (std::size_t begin = 0; begin < xs.size();) {
    std::size_t end = begin, lowest = begin, highest = begin;
    for (; end < xs.size() && std::floor(xs[end]) == std::floor(xs[begin]); ++end) {
      if (ys[end] < ys[lowest]) lowest = end;
      if (ys[end] > ys[highest]) highest = end;
    }
    std::vector<std::size_t> run = {begin, lowest, highest, end - 1};
    std::sort(run.begin(), run.end());
    run.erase(std::unique(run.begin(), run.end()), run.end());
    kept.insert(kept.end(), run.begin(), run.end());
    begin = end;
  }
  return kept;
}

}  // namespace satformer
