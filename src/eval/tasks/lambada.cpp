// The last word of a passage.
#include "eval/tasks/tasks.h"

namespace satformer::tasks {

namespace {

Question ask_lambada(const Row& row) {
  const Columns columns(row);
  const std::string text = columns.text("text");
  const auto space = text.rfind(' ');
  Question q;
  q.text = space == std::string::npos ? "" : text.substr(0, space);
  q.example = q.target = " " + (space == std::string::npos ? text : text.substr(space + 1));
  q.choices = {q.target};
  q.document = row.columns;
  return q;
}

}  // namespace

Task lambada_openai() {
  Task task;
  task.name = "lambada_openai";
  task.summary = "the last word of a passage";
  task.kind = RequestKind::likelihood;
  task.names = {"lambada_openai", "lambada"};
  task.split = task.example_split = "test";
  task.exclude_document = false;
  task.metrics = {{"perplexity", Aggregation::perplexity, false}, {"acc"}};
  task.ask = ask_lambada;
  return task;
}

}  // namespace satformer::tasks
