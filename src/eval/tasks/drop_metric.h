// DROP's grading: spans become bags of normalised words, bags are matched one to one for the largest total F1.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace satformer::tasks {

struct DropScore {
  double exact_match = 0, f1 = 0;  // f1 rounded to two decimals
};
DropScore drop_score(const std::vector<std::string>& predicted, const std::vector<std::string>& gold);

// Lower case, without punctuation and articles, numbers as floats; words are cut at spaces and hyphens.
std::string normalize_span(std::string_view text);

// For each row of `scores` (all of one length) the column of the assignment with the largest sum, or -1: min(rows,
// columns) rows have one.
std::vector<std::ptrdiff_t> best_assignment(const std::vector<std::vector<double>>& scores);

}  // namespace satformer::tasks
