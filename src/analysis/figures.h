// The figures of an analysis as functions of plain numbers. docs/commands/analyze.md has the equations.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace satformer {

double mean_of(std::span<const float> values);  // NaN without values

// How unevenly non-negative weights |x_i| are spread. NaN where all are zero.
struct Concentration {
  double entropy = 0;          // -sum p ln p / ln n with p = |x| / sum |x|: 1 = even, 0 = one alone; 1 for n = 1
  double gini = 0;             // sum_i (2 i - n - 1) x_(i) / (n sum x), x ascending: 0 = even, (n-1)/n = one alone
  double top1 = 0, top10 = 0;  // share of the sum that the largest 1 %, 10 % hold (at least one of them)
};
Concentration concentration(std::span<const float> values);

// Pearson's correlation; NaN if one side does not vary or fewer than two pairs are given.
double pearson(std::span<const float> x, std::span<const float> y);
// Ranks from 1, ties their mean; and Pearson's correlation of ranks.
std::vector<float> ranks(std::span<const float> values);
double spearman(std::span<const float> x, std::span<const float> y);

// Clusters by average linkage: the two with the highest mean similarity are joined while it is at least `threshold`.
// similarity: n x n, symmetric; NaN counts as 0. Returns each item's cluster, numbered by first member.
std::vector<std::int64_t> average_linkage(std::span<const double> similarity, std::int64_t n, double threshold);

}  // namespace satformer
