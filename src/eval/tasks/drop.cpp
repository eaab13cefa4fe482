// DROP: questions about a passage whose answers are numbers, dates or spans; graded by bags of words.
#include <algorithm>

#include "base/error.h"
#include "base/unicode.h"
#include "eval/tasks/drop_metric.h"
#include "eval/tasks/tasks.h"

namespace satformer::tasks {
namespace {

using Spans = std::vector<std::string>;

std::string date_text(const Columns& date) {
  return std::string(strip(date.text("day") + " " + date.text("month") + " " + date.text("year")));
}

// A number counts before spans, spans before a date.
Spans parse_answer(const std::string& number, const Spans& spans, const Columns& date) {
  if (!number.empty()) return {number};
  if (!spans.empty()) return spans;
  return {date_text(date)};
}

std::string number_text(const Json& value) { return value.is_string() ? value.get<std::string>() : value.dump(); }

std::vector<Spans> accepted_answers(const Columns& columns) {
  std::vector<Spans> result;
  const auto add = [&](Spans spans) {
    if (std::find(result.begin(), result.end(), spans) == result.end()) result.push_back(std::move(spans));
  };
  const Columns answer = columns.inside("answer");
  add(parse_answer(number_text(answer.at("number")), answer.texts("spans"), answer.inside("date")));
  const Columns more = columns.inside("validated_answers");
  const Json &numbers = more.at("number"), &dates = more.at("date"), &spans = more.at("spans");
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    if (i >= spans.size() || i >= dates.size()) {
      fail(ExitCode::data, columns.origin(), ": in 'validated_answers': lists of different lengths");
    }
    add(parse_answer(number_text(numbers.at(i)), spans.at(i).get<Spans>(),
                     Columns(dates.at(i), concat(columns.origin(), ": in 'validated_answers'"))));
  }
  return result;
}

Question ask_drop(const Row& row) {
  const Columns columns(row);
  Question q;
  q.text = columns.text("passage") + " " + columns.text("question");
  q.spans = accepted_answers(columns);
  // lm-eval joins the keys of the answer object here, not its values; the same prompts need the same.
  for (const auto& [key, value] : columns.at("answer").items()) q.example += (q.example.empty() ? "" : ",") + key;
  q.target = q.example;
  q.document = row.columns;
  q.document["id"] = columns.at("query_id");
  q.document["answers"] = q.spans;
  return q;
}

Scores grade_drop(const Question& q, const Response& r) {
  double best_match = 0, best_f1 = 0;
  for (const Spans& gold : q.spans) {
    const DropScore score = drop_score({r.text}, gold);
    if (strip(gold.at(0)).empty()) continue;
    best_match = std::max(best_match, score.exact_match);
    best_f1 = std::max(best_f1, score.f1);
  }
  return {{best_match}, {best_f1}};
}

}  // namespace

Task drop() {
  Task task;
  task.name = "drop";
  task.version = 3.0;
  task.summary = "numbers, dates and spans of a passage";
  task.kind = RequestKind::generate;
  task.names = {"drop", "EleutherAI/drop"};
  task.example_split = "train";
  task.delimiter = "";
  task.generation = {.max_tokens = 256, .stop = {"."}, .logged = {{"until", {"."}}}};
  task.metrics = {{"em"}, {"f1"}};
  task.ask = ask_drop;
  task.grade = grade_drop;
  return task;
}

}  // namespace satformer::tasks
