// What a task is: where its documents are, what is asked about each, and how answers are graded. The harness
// (harness.h) runs any task; tasks/ defines them, one file a family, listed in tasks/list.cpp.
#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "eval/rows.h"

namespace satformer {

// lm-eval's output types: multiple_choice, loglikelihood, loglikelihood_rolling, generate_until.
enum class RequestKind { choice, likelihood, rolling, generate };
std::string output_type(RequestKind kind);

// A document, made ready to be asked about.
struct Question {
  std::string text;                   // what the model reads, before description and examples are put in front
  std::vector<std::string> contexts;  // instead of text: one per choice, all with the same continuation
  // choice: the continuations (with `contexts`, the shared one alone), each after the task's delimiter; likelihood:
  // the target; rolling: the text.
  std::vector<std::string> choices;
  std::size_t gold = 0;                         // choice: the right one
  std::vector<std::string> answers;             // generate: the accepted texts
  std::vector<std::vector<std::string>> spans;  // generate: accepted answers of several spans
  std::string example;                          // the answer where this document is a few-shot example
  std::string target;                           // as the samples file shows it
  Json document;                                // as the samples file shows it
};

// What the model said.
struct Response {
  std::vector<std::pair<double, bool>> likelihoods;  // per choice or window: summed log-likelihood, is greedy
  std::int64_t tokens = 0;                           // scored, over all of them
  std::string text;                                  // generate
  double total() const;
};

// Per-document values in the order of Task::metrics. The weight is what a weighted mean divides by; 0: the metric
// does not apply to the document.
struct Score {
  double value = 0, weight = 1;
};
using Scores = std::vector<Score>;

// How the values of all documents become one: mean (with standard error), plain_mean (lm-eval gives none there),
// perplexity exp(-mean) (bootstrap), weighted_perplexity exp(-sum/weights), bits_per_byte.
enum class Aggregation { mean, plain_mean, perplexity, weighted_perplexity, bits_per_byte };

struct Metric {
  std::string name;
  Aggregation aggregation = Aggregation::mean;
  bool higher_is_better = true;
};

struct Generation {
  std::int64_t max_tokens = 256;
  std::vector<std::string> stop;
  Json logged;  // lm-eval's gen_kwargs
};

struct Task {
  std::string name;
  Json version = 1.0;
  std::string summary;  // one line for --list-tasks
  RequestKind kind = RequestKind::choice;

  // Files: of the first of `names` that the data folder holds.
  std::vector<std::string> names;
  std::string split = "validation", example_split = "validation";
  std::vector<std::string> files, example_files;                  // instead of looking in the data folder
  std::function<std::vector<Row>(std::int64_t limit)> make_rows;  // generated tasks read no file

  std::string description, delimiter = " ", example_delimiter = "\n\n", filter = "none";
  bool exclude_document = true;  // examples are drawn with one to spare and are never the document itself
  Generation generation;
  std::vector<Metric> metrics;
  bool strip_output = false;  // white space at both ends of a generated text is dropped before grading

  // Error(data) where a row cannot be asked about.
  std::function<Question(const Row&)> ask;
  // Empty: by kind, as lm-eval grades (grade.h).
  std::function<Scores(const Question&, const Response&)> grade;
};

}  // namespace satformer
