// A value that stands in a given text: swde (web pages), fda (PDF forms), squad_completion (paragraphs).
#include "base/unicode.h"
#include "eval/tasks/tasks.h"

namespace satformer::tasks {

Generation short_answer() {
  return {.max_tokens = 48, .stop = {"\n"}, .logged = {{"until", {"\n"}}, {"max_gen_toks", 48}}};
}

Metric contains_metric() { return {"contains", Aggregation::plain_mean}; }

namespace {

Question ask(const Row& row, bool stripped) {
  const Columns columns(row);
  const std::string text = columns.text("text"), value = columns.text("value");
  Question q;
  q.text = stripped ? strip(text) : std::string_view(text);
  q.target = stripped ? strip(value) : std::string_view(value);
  q.example = q.target;
  q.answers = {q.target};
  q.document = row.columns;
  return q;
}

Question ask_stripped(const Row& row) { return ask(row, true); }
Question ask_as_is(const Row& row) { return ask(row, false); }

}  // namespace

std::vector<Task> completion() {
  struct Family {
    const char *name, *folder, *summary;
  };
  std::vector<Task> list;
  for (const Family& family : {Family{"swde", "based-swde-v2", "a property named at the end of a web page's text"},
                               Family{"fda", "based-fda", "a property named at the end of a form's text"},
                               Family{"squad_completion", "based-squad", "a sentence that a paragraph completes"}}) {
    Task task;
    task.name = family.name;
    task.version = 1;
    task.summary = family.summary;
    task.kind = RequestKind::generate;
    task.names = {family.name, family.folder};
    task.metrics = {contains_metric()};
    task.generation = short_answer();
    if (task.name == "squad_completion") {
      task.generation = {
          .max_tokens = 256,
          .stop = {"\n\n"},
          .logged = {{"temperature", 0.0}, {"do_sample", false}, {"max_gen_toks", 256}, {"until", {"\n\n"}}}};
    }
    task.ask = ask_stripped;
    list.push_back(task);
    task.name += "@v0";
    task.version = 0;
    task.summary += ", text not stripped";
    task.ask = ask_as_is;
    list.push_back(task);
  }
  return list;
}

}  // namespace satformer::tasks
