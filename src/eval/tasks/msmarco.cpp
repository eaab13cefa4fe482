// Passage ranking: passages are ordered by the likelihood of the query after each of them.
#include <algorithm>

#include "base/error.h"
#include "eval/tasks/tasks.h"

namespace satformer::tasks {
namespace {

Question ask_msmarco(const Row& row) {
  const Columns columns(row);
  const Columns passages = columns.inside("passages");
  const std::vector<std::string> texts = passages.texts("passage_text");
  const Json& selected = passages.at("is_selected");
  if (!selected.is_array() || selected.size() != texts.size()) {
    fail(ExitCode::data, passages.origin(), ": 'is_selected' must be a list of ", texts.size(), " numbers");
  }
  check_choices(texts, passages.origin());
  Question q;
  for (const std::string& text : texts) q.contexts.push_back("Passage: " + text + "\nQuery:");
  q.choices = {columns.text("query")};
  if (q.choices[0].empty()) fail(ExitCode::data, columns.origin(), ": 'query' is empty");
  bool any = false;
  for (std::size_t i = 0; i < texts.size(); ++i) {
    if (selected[i] != 1 && selected[i] != true) continue;
    q.answers.push_back(std::to_string(i));
    if (!any) q.gold = i;
    any = true;
  }
  if (!any) fail(ExitCode::data, columns.origin(), ": no passage is marked as relevant");
  q.text = q.contexts[q.gold];
  q.example = q.choices[0];
  q.target = std::to_string(q.gold);
  q.document = row.columns;
  return q;
}

// The reciprocal of the best relevant passage's rank, 0 beyond the tenth. Of equals the first counts as better.
Scores grade_msmarco(const Question& q, const Response& r) {
  std::size_t best = r.likelihoods.size();
  for (const std::string& answer : q.answers) {
    const std::size_t relevant = std::stoul(answer);
    std::size_t rank = 1;
    for (std::size_t i = 0; i < r.likelihoods.size(); ++i) {
      const double a = r.likelihoods[i].first, b = r.likelihoods[relevant].first;
      if (a > b || (a == b && i < relevant)) ++rank;
    }
    best = std::min(best, rank);
  }
  return {{best <= 10 ? 1.0 / static_cast<double>(best) : 0.0}};
}

}  // namespace

Task msmarco() {
  Task task;
  task.name = "msmarco";
  task.version = 1;
  task.summary = "which of the passages found answers a query";
  task.kind = RequestKind::choice;
  task.names = {"msmarco", "ms_marco", "ms_marco/v1.1"};
  task.example_split = "train";
  task.metrics = {{"mrr@10"}};
  task.ask = ask_msmarco;
  task.grade = grade_msmarco;
  return task;
}

}  // namespace satformer::tasks
