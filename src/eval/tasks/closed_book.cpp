// Questions without a passage: triviaqa and nq_open.
#include "base/error.h"
#include "eval/grade.h"
#include "eval/python_text.h"
#include "eval/tasks/tasks.h"

namespace satformer::tasks {
namespace {

Question ask_list(const Row& row, std::string text, std::vector<std::string> answers, std::string_view column) {
  if (answers.empty()) fail(ExitCode::data, row.origin, ": '", column, "' names no answer");
  Question q;
  q.text = std::move(text);
  q.target = list_repr(answers);
  q.example = answers[0];
  q.answers = std::move(answers);
  q.document = row.columns;
  return q;
}

Question ask_triviaqa(const Row& row) {
  const Columns columns(row);
  return ask_list(row,
                  "Question: " + columns.text("question") + "?\nAnswer:", columns.inside("answer").texts("aliases"),
                  "aliases");
}

Question ask_nq_open(const Row& row) {
  const Columns columns(row);
  return ask_list(row, "Q: " + columns.text("question") + "?\nA:", columns.texts("answer"), "answer");
}

}  // namespace

std::vector<Task> closed_book() {
  Task task;
  task.name = "triviaqa";
  task.version = 3.0;
  task.summary = "trivia without a passage";
  task.kind = RequestKind::generate;
  task.names = {"triviaqa", "trivia_qa", "trivia_qa/rc.nocontext"};
  task.example_split = "train";
  task.filter = "remove_whitespace";
  task.strip_output = true;
  task.generation = {.max_tokens = 256,
                     .stop = {"\n", ".", ","},
                     .logged = {{"until", {"\n", ".", ","}}, {"do_sample", false}, {"temperature", 0.0}}};
  task.metrics = {{"exact_match"}};
  task.ask = ask_triviaqa;
  task.grade = [](const Question& q, const Response& r) { return Scores{{exact_match(r.text, q.answers, false)}}; };
  Task nq = task;
  nq.name = "nq_open";
  nq.version = 4.0;
  nq.summary = "search questions without a passage";
  nq.names = {"nq_open"};
  nq.description = "Answer these questions:\n\n";
  nq.example_delimiter = "\n";
  nq.ask = ask_nq_open;
  nq.grade = [](const Question& q, const Response& r) { return Scores{{exact_match(r.text, q.answers, true)}}; };
  return {task, nq};
}

}  // namespace satformer::tasks
