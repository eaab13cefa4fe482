#include "eval/grade.h"

#include <algorithm>
#include <cmath>
#include <thread>

#include "base/error.h"
#include "base/unicode.h"
#include "eval/python_random.h"
#include "eval/python_text.h"

namespace satformer {

std::string output_type(RequestKind kind) {
  switch (kind) {
    case RequestKind::choice:
      return "multiple_choice";
    case RequestKind::likelihood:
      return "loglikelihood";
    case RequestKind::rolling:
      return "loglikelihood_rolling";
    case RequestKind::generate:
      return "generate_until";
  }
  return {};
}

double Response::total() const {
  double sum = 0;
  for (const auto& [value, greedy] : likelihoods) sum += value;
  return sum;
}

std::size_t arg_max(const std::vector<double>& values) {
  return static_cast<std::size_t>(std::max_element(values.begin(), values.end()) - values.begin());
}

namespace {

Score choice_score(const std::string& metric, const Question& q, const Response& r) {
  if (metric == "exact_match") return {r.likelihoods.at(q.gold).second ? 1.0 : 0.0};
  std::vector<double> values;
  for (std::size_t i = 0; i < r.likelihoods.size(); ++i) {
    // With one continuation for all choices, the choices stand in the contexts.
    const std::string& choice = q.contexts.empty() ? q.choices.at(i) : q.contexts.at(i);
    const double divisor = metric == "acc_norm"    ? static_cast<double>(count_characters(choice))
                           : metric == "acc_bytes" ? static_cast<double>(choice.size())
                                                   : 1.0;
    values.push_back(r.likelihoods[i].first / divisor);
  }
  return {arg_max(values) == q.gold ? 1.0 : 0.0};
}

}  // namespace

Scores grade_by_kind(const Task& task, const Question& question, const Response& response) {
  Scores scores;
  for (const Metric& metric : task.metrics) {
    switch (task.kind) {
      case RequestKind::choice:
        scores.push_back(choice_score(metric.name, question, response));
        break;
      case RequestKind::likelihood:
        scores.push_back({metric.name == "acc" ? (response.likelihoods.at(0).second ? 1.0 : 0.0)
                                               : response.likelihoods.at(0).first});
        break;
      case RequestKind::rolling: {
        const std::string& text = question.choices.at(0);
        const std::int64_t weight = metric.name == "word_perplexity"    ? count_words(text)
                                    : metric.name == "token_perplexity" ? response.tokens
                                                                        : static_cast<std::int64_t>(text.size());
        scores.push_back({response.total(), static_cast<double>(weight)});
        break;
      }
      case RequestKind::generate: {
        const bool exact = metric.name == "exact_match";
        scores.push_back({exact ? exact_match(response.text, question.answers, false)
                                : contains_any(response.text, question.answers)});
        break;
      }
    }
  }
  return scores;
}

double contains_any(std::string_view text, const std::vector<std::string>& answers) {
  return std::any_of(answers.begin(), answers.end(),
                     [&](const std::string& answer) { return contains_ignoring_case(text, answer); })
             ? 1.0
             : 0.0;
}

namespace {

std::string without_articles(std::string_view text) {
  std::string result;
  char32_t before = U' ';
  while (!text.empty()) {
    if (!is_word_character(before)) {
      bool cut = false;
      for (const std::string_view article : {"The ", "the ", "An ", "A ", "a ", "an "}) {
        if (!text.starts_with(article)) continue;
        text.remove_prefix(article.size());
        cut = true;
        before = U' ';
        break;
      }
      if (cut) continue;
    }
    const CodePoint c = first_code_point(text);
    before = c.value;
    result += text.substr(0, c.size);
    text.remove_prefix(c.size);
  }
  return result;
}

std::string plain_answer(std::string_view text, bool drop_articles) {
  return without_punctuation(lower_case(drop_articles ? without_articles(text) : std::string(text)));
}

}  // namespace

double exact_match(std::string_view text, const std::vector<std::string>& answers, bool drop_articles) {
  const std::string given = plain_answer(text, drop_articles);
  return std::any_of(answers.begin(), answers.end(),
                     [&](const std::string& answer) { return plain_answer(answer, drop_articles) == given; })
             ? 1.0
             : 0.0;
}

double sample_stddev(const std::vector<double>& values) {
  double sum = 0;
  for (const double v : values) sum += v;
  const double mean = sum / static_cast<double>(values.size());
  double squares = 0;
  for (const double v : values) squares += (v - mean) * (v - mean);
  return std::sqrt(squares / static_cast<double>(values.size() - 1));
}

namespace {

// Chunk i of 1000 resamples comes from a generator seeded with i.
double bootstrap_perplexity_stderr(const std::vector<double>& values, std::int64_t iterations) {
  const std::int64_t chunk = std::min<std::int64_t>(1000, iterations), chunks = iterations / chunk;
  std::vector<double> results(static_cast<std::size_t>(chunk * chunks));
  const auto run = [&](std::int64_t first, std::int64_t step) {
    for (std::int64_t c = first; c < chunks; c += step) {
      PythonRandom random(static_cast<std::uint64_t>(c));
      for (std::int64_t i = 0; i < chunk; ++i) {
        double sum = 0;
        for (std::size_t k = 0; k < values.size(); ++k) sum += values[random.choice_index(values.size())];
        results[static_cast<std::size_t>(c * chunk + i)] = std::exp(-(sum / static_cast<double>(values.size())));
      }
    }
  };
  const auto threads = static_cast<std::int64_t>(std::max(1u, std::thread::hardware_concurrency()));
  std::vector<std::jthread> workers;
  for (std::int64_t t = 1; t < threads; ++t) workers.emplace_back(run, t, threads);
  run(0, threads);
  workers.clear();
  return sample_stddev(results);
}

}  // namespace

Aggregate aggregate(Aggregation kind, const std::vector<Score>& scores, std::int64_t bootstrap_iterations) {
  std::vector<double> values;
  double sum = 0, weights = 0;
  for (const Score& score : scores) {
    if (score.weight == 0) continue;
    values.push_back(score.value);
    sum += score.value;
    weights += score.weight;
  }
  const double mean = sum / static_cast<double>(values.size());
  const bool with_error = bootstrap_iterations > 0 && values.size() > 1;
  Aggregate result;
  switch (kind) {
    case Aggregation::mean:
      result.value = mean;
      if (with_error) result.stderr_value = sample_stddev(values) / std::sqrt(static_cast<double>(values.size()));
      break;
    case Aggregation::plain_mean:
      result.value = mean;
      break;
    case Aggregation::perplexity:
      result.value = std::exp(-mean);
      if (with_error) result.stderr_value = bootstrap_perplexity_stderr(values, bootstrap_iterations);
      break;
    case Aggregation::weighted_perplexity:
      result.value = std::exp(-sum / weights);
      break;
    case Aggregation::bits_per_byte:
      result.value = -sum / weights / std::log(2.0);
      break;
  }
  return result;
}

}  // namespace satformer
