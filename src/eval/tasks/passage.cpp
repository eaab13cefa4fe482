// The retrieval sets with the passage in front of the question, asked as a text to complete (Arora et al., JRT): the
// passage once ("@jrt") or twice with the question before both ("_twice"). An answer counts if the continuation
// contains it.
#include "base/error.h"
#include "base/unicode.h"
#include "eval/python_text.h"
#include "eval/tasks/tasks.h"

namespace satformer::tasks {
namespace {

std::string without_last_characters(std::string_view text, std::int64_t count) {
  std::vector<std::size_t> starts;
  for (std::size_t at = 0; at < text.size(); at += first_code_point(text.substr(at)).size) starts.push_back(at);
  const auto kept = static_cast<std::int64_t>(starts.size()) - count;
  return std::string(kept <= 0 ? std::string_view() : text.substr(0, starts[static_cast<std::size_t>(kept)]));
}

std::string without_ending(std::string text, const std::string& ending, const std::string& origin) {
  if (ending.empty()) fail(ExitCode::data, origin, ": the question is empty");
  while (ends_with_ignoring_case(text, ending)) text = without_last_characters(text, count_characters(ending));
  return text;
}

std::string stripped_of_marks(std::string text) {
  for (const char* mark : {"[PAR]", "[DOC]", "[TLE]"}) text = replace_all(text, mark, "");
  return text;
}

std::string once(std::string_view context, std::string_view question) {
  return concat(strip_characters(strip(context), '.'), ". ", question);
}

std::string twice(std::string_view intro, std::string_view context, std::string_view question) {
  const std::string passage = concat(strip(strip_characters(strip(context), '.')), ".");
  return concat(intro, " ", passage, "\n", passage, " ", question);
}

enum class Source { nq, drop, triviaqa };

Question ask_passage(const Row& row, Source source, bool doubled) {
  const Columns columns(row);
  std::string context(strip(columns.text("context")));
  const std::string question(strip(columns.text("question")));
  if (source == Source::triviaqa) context = stripped_of_marks(context);
  if (source == Source::nq && !doubled) {  // this one minds the case and looks once
    if (!question.empty() && context.ends_with(question)) context.resize(context.size() - question.size());
  } else {
    context = without_ending(context, question, columns.origin());
  }
  Question q;
  if (doubled) {
    const std::string intro = columns.text("orig_question");
    q.text =
        twice(source == Source::triviaqa ? std::string_view(intro) : strip_characters(intro, ':'), context, question);
  } else {
    q.text = once(context, question);
  }
  q.answers = columns.texts("answers");
  if (q.answers.empty()) fail(ExitCode::data, columns.origin(), ": 'answers' names no answer");
  q.example = q.target = " " + q.answers[0];
  q.document = row.columns;
  return q;
}

std::string key_question(const Columns& columns) {
  const std::string key = columns.text("key");
  if (key.empty()) fail(ExitCode::data, columns.origin(), ": 'key' is empty");
  const std::size_t first = first_code_point(key).size;
  return upper_case(key.substr(0, first)) + key.substr(first) + ":";
}

Question finish(const Row& row, std::string text, std::string value) {
  Question q;
  q.text = std::move(text);
  q.answers = {value};
  q.example = q.target = std::move(value);
  q.document = row.columns;
  return q;
}

std::string doubled_form(const std::string& question, const std::string& text) {
  return concat("Information about ", strip_characters(question, ':'), ". ", text, "\n", text, " ", question);
}

Question ask_swde(const Row& row, bool doubled) {
  const Columns columns(row);
  std::string text = columns.text("text");
  text.resize(std::min(text.find("Summary of information above..."), text.size()));
  text = without_ending(std::move(text), columns.text("key") + ":", columns.origin());
  const std::string question = key_question(columns);
  if (!doubled) {
    const std::string_view page = strip(strip_characters(strip(strip_characters(text, '\n')), '\n'));
    return finish(row, concat(strip_characters(page, '.'), ". ", question), columns.text("value"));
  }
  std::string page(strip(strip_characters(strip(strip_characters(strip_characters(text, '\n'), '.')), '\n')));
  if (!page.ends_with('.')) page += '.';
  return finish(row, doubled_form(question, page), columns.text("value"));
}

Question ask_fda(const Row& row, bool doubled) {
  const Columns columns(row);
  const std::string text = without_ending(columns.text("text"), columns.text("key") + ":", columns.origin());
  const std::string question = key_question(columns);
  const std::string form = concat(strip_characters(strip_characters(text, '\n'), '.'), ".");
  return finish(row, doubled ? doubled_form(question, form) : form + " " + question, columns.text("value"));
}

Question ask_squad(const Row& row, bool doubled) {
  const Columns columns(row);
  const std::string text(strip(columns.text("text")));
  if (!doubled) return finish(row, text, columns.text("value"));
  std::string context = columns.text("context");
  context.resize(std::min(context.find("Question:"), context.size()));
  return finish(row, concat(columns.text("question"), " ", context, "\n", text), columns.text("value"));
}

}  // namespace

std::vector<Task> with_passage() {
  std::vector<Task> list;
  const auto add = [&](const std::string& name, const std::vector<std::string>& names, const std::string& summary,
                       const std::function<Question(const Row&, bool)>& ask) {
    for (const bool doubled : {false, true}) {
      Task task;
      task.name = doubled ? name + "_twice" : name;
      task.version = doubled ? "jrt-twice" : "jrt";
      task.summary = summary + (doubled ? ", given twice" : "");
      task.kind = RequestKind::generate;
      task.names = names;
      task.generation = short_answer();
      task.metrics = {contains_metric()};
      task.ask = [ask, doubled](const Row& row) { return ask(row, doubled); };
      list.push_back(std::move(task));
    }
  };
  const auto passage = [](Source source) {
    return [source](const Row& row, bool doubled) { return ask_passage(row, source, doubled); };
  };
  for (const char* length : {"512", "1024", "2048"}) {
    const std::string folder = concat("based_nq_", length);
    add(concat("nq@jrt-", length), {folder}, concat("search questions on a passage of up to ", length, " tokens"),
        passage(Source::nq));
  }
  add("triviaqa@jrt", {"based_triviaqa"}, "trivia with a passage", passage(Source::triviaqa));
  add("drop@jrt", {"based_drop"}, "DROP's questions with the passage as a text to complete", passage(Source::drop));
  add("swde@jrt", {"swde", "based-swde-v2"}, "a property of a web page, asked by its name", ask_swde);
  add("fda@jrt", {"fda", "based-fda"}, "a property of a form, asked by its name", ask_fda);
  add("squad_completion@jrt", {"squad_completion", "based-squad"}, "a sentence that a paragraph completes",
      ask_squad);
  return list;
}

}  // namespace satformer::tasks
