#include "eval/tasks/drop_metric.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>
#include <set>

#include "base/unicode.h"
#include "eval/python_text.h"

namespace satformer::tasks {
namespace {

using Bag = std::set<std::string>;

std::string join(const std::vector<std::string>& parts) {
  std::string text;
  for (const std::string& part : parts) text += (text.empty() ? "" : " ") + part;
  return text;
}

std::string normalize_token(std::string_view token) {
  std::string text = lower_case(token);
  if (!parse_float(text)) text = without_punctuation(text);
  if (const auto number = parse_float(text)) text = float_repr(*number);
  return join(split_at_space(replace_articles(text, " ")));
}

Bag numbers_of(const Bag& bag) {
  Bag numbers;
  std::copy_if(bag.begin(), bag.end(), std::inserter(numbers, numbers.end()),
               [](const std::string& word) { return parse_float(word).has_value(); });
  return numbers;
}

std::size_t common(const Bag& a, const Bag& b) {
  return static_cast<std::size_t>(
      std::count_if(a.begin(), a.end(), [&](const std::string& w) { return b.contains(w); }));
}

double f1_of(const Bag& predicted, const Bag& gold) {
  const auto shared = static_cast<double>(common(predicted, gold));
  const double precision = predicted.empty() ? 1.0 : shared / static_cast<double>(predicted.size());
  const double recall = gold.empty() ? 1.0 : shared / static_cast<double>(gold.size());
  return precision == 0 && recall == 0 ? 0.0 : 2 * precision * recall / (precision + recall);
}

// Where the gold span has numbers, one of them must be among the prediction's.
double bag_score(const Bag& predicted, const Bag& gold) {
  const Bag numbers = numbers_of(gold);
  if (!numbers.empty() && common(numbers, numbers_of(predicted)) == 0) return 0;
  return f1_of(predicted, gold);
}

// To the nearest hundredth of the decimal value, as Python's round() on a float64 of numpy: scaled, to even, back.
double round_to_hundredths(double value) { return std::nearbyint(value * 100.0) / 100.0; }

}  // namespace

std::string normalize_span(std::string_view text) {
  std::vector<std::string> tokens;
  while (true) {
    const auto end = std::min(text.find_first_of(" -"), text.size());
    const std::string token = normalize_token(text.substr(0, end));
    if (!strip(token).empty()) tokens.push_back(token);
    if (end == text.size()) break;
    text.remove_prefix(end + 1);
  }
  return std::string(strip(join(tokens)));
}

// Hungarian method with potentials (Kuhn-Munkres, shortest augmenting paths) on negated scores.
std::vector<std::ptrdiff_t> best_assignment(const std::vector<std::vector<double>>& scores) {
  const std::size_t rows = scores.size(), columns = rows ? scores[0].size() : 0;
  std::vector<std::ptrdiff_t> result(rows, -1);
  if (rows == 0 || columns == 0) return result;
  const bool flip = rows > columns;
  const std::size_t n = flip ? columns : rows, m = flip ? rows : columns;
  const auto cost = [&](std::size_t i, std::size_t j) { return -(flip ? scores[j][i] : scores[i][j]); };
  std::vector<double> u(n + 1, 0), v(m + 1, 0);
  std::vector<std::size_t> match(m + 1, 0), way(m + 1, 0);
  for (std::size_t i = 1; i <= n; ++i) {
    match[0] = i;
    std::size_t at = 0;
    std::vector<double> least(m + 1, std::numeric_limits<double>::infinity());
    std::vector<bool> used(m + 1, false);
    do {
      used[at] = true;
      const std::size_t row = match[at];
      double delta = std::numeric_limits<double>::infinity();
      std::size_t next = 0;
      for (std::size_t j = 1; j <= m; ++j) {
        if (used[j]) continue;
        const double reduced = cost(row - 1, j - 1) - u[row] - v[j];
        if (reduced < least[j]) {
          least[j] = reduced;
          way[j] = at;
        }
        if (least[j] < delta) {
          delta = least[j];
          next = j;
        }
      }
      for (std::size_t j = 0; j <= m; ++j) {
        if (used[j]) {
          u[match[j]] += delta;
          v[j] -= delta;
        } else {
          least[j] -= delta;
        }
      }
      at = next;
    } while (match[at] != 0);
    do {
      const std::size_t before = way[at];
      match[at] = match[before];
      at = before;
    } while (at != 0);
  }
  for (std::size_t j = 1; j <= m; ++j) {
    if (match[j] == 0) continue;
    const std::size_t i = match[j] - 1;
    if (flip) {
      result[j - 1] = static_cast<std::ptrdiff_t>(i);
    } else {
      result[i] = static_cast<std::ptrdiff_t>(j - 1);
    }
  }
  return result;
}

DropScore drop_score(const std::vector<std::string>& predicted, const std::vector<std::string>& gold) {
  const auto normalized = [](const std::vector<std::string>& spans) {
    std::vector<std::string> result;
    for (const std::string& span : spans) result.push_back(normalize_span(span));
    return result;
  };
  const auto bag = [](const std::string& span) {
    const auto words = split_at_space(span);
    return Bag(words.begin(), words.end());
  };
  const std::vector<std::string> p = normalized(predicted), g = normalized(gold);
  DropScore result;
  result.exact_match = p.size() == g.size() && Bag(p.begin(), p.end()) == Bag(g.begin(), g.end()) ? 1.0 : 0.0;
  std::vector<std::vector<double>> scores(g.size(), std::vector<double>(p.size(), 0));
  for (std::size_t i = 0; i < g.size(); ++i) {
    for (std::size_t j = 0; j < p.size(); ++j) scores[i][j] = bag_score(bag(p[j]), bag(g[i]));
  }
  const auto assignment = best_assignment(scores);
  double sum = 0;
  for (std::size_t i = 0; i < g.size(); ++i) {
    if (assignment[i] >= 0) sum += scores[i][static_cast<std::size_t>(assignment[i])];
  }
  result.f1 = round_to_hundredths(sum / static_cast<double>(std::max(g.size(), p.size())));
  return result;
}

}  // namespace satformer::tasks
