// Grading of responses, and statistics over documents, as lm-eval 0.4.13 has them.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "eval/task.h"

namespace satformer {

// choice: acc, acc_norm (per character of the choice), acc_bytes, exact_match; likelihood: perplexity (the
// log-likelihood), acc; rolling: word_perplexity, byte_perplexity, bits_per_byte, token_perplexity (needs `tokens`).
Scores grade_by_kind(const Task& task, const Question& question, const Response& response);

// 1 if the text contains an answer, upper and lower case alike.
double contains_any(std::string_view text, const std::vector<std::string>& answers);
// 1 if the text equals an answer without case and ASCII punctuation; `drop_articles`: after "the ", "an ", "a "
// (also with a capital) are taken out where they begin at a word's edge.
double exact_match(std::string_view text, const std::vector<std::string>& answers, bool drop_articles);

// The first of equals.
std::size_t arg_max(const std::vector<double>& values);

struct Aggregate {
  double value = 0;
  std::optional<double> stderr_value;  // nothing: lm-eval's "N/A"
};
// `bootstrap_iterations`: resamples for perplexity's standard error, as lm-eval draws them (multiples of 1000 or
// fewer than 1000; 0: none, and then no standard error at all).
Aggregate aggregate(Aggregation kind, const std::vector<Score>& scores, std::int64_t bootstrap_iterations);

double sample_stddev(const std::vector<double>& values);

}  // namespace satformer
