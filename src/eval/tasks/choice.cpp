// Multiple choice: the likeliest of the given continuations.
#include "base/error.h"
#include "base/unicode.h"
#include "eval/python_text.h"
#include "eval/tasks/tasks.h"

namespace satformer::tasks {

std::size_t check_gold(std::int64_t index, std::size_t count, const Columns& columns, std::string_view column) {
  if (index < 0 || index >= static_cast<std::int64_t>(count)) {
    fail(ExitCode::data, columns.origin(), ": '", column, "' gives choice ", index, " of ", count);
  }
  return static_cast<std::size_t>(index);
}

void check_choices(const std::vector<std::string>& choices, const std::string& origin) {
  if (choices.empty()) fail(ExitCode::data, origin, ": there are no choices");
  for (std::size_t i = 0; i < choices.size(); ++i) {
    if (choices[i].empty()) fail(ExitCode::data, origin, ": choice ", i + 1, " of ", choices.size(), " is empty");
  }
}

namespace {

Task choice_task(std::string name, std::string summary, bool with_norm) {
  Task task;
  task.names = {name};
  task.name = std::move(name);
  task.summary = std::move(summary);
  task.kind = RequestKind::choice;
  task.example_split = "train";
  task.metrics = {{"acc"}};
  if (with_norm) task.metrics.push_back({"acc_norm"});
  return task;
}

// The fields that do not differ between choice tasks.
Question finish(Question q, std::int64_t gold, const Columns& columns, std::string_view column) {
  check_choices(q.contexts.empty() ? q.choices : q.contexts, columns.origin());
  const std::size_t count = q.contexts.empty() ? q.choices.size() : q.contexts.size();
  q.gold = check_gold(gold, count, columns, column);
  if (q.contexts.empty()) {
    q.example = q.choices[q.gold];
    q.target = std::to_string(q.gold);
  }
  if (q.document.is_null()) q.document = columns.object();
  return q;
}

// WikiHow's marks, "[title]" among them, and double spaces.
std::string clean_wikihow(std::string_view text) {
  const std::string marked = replace_all(strip(text), " [title]", ". ");
  std::string result;
  for (std::size_t at = 0; at < marked.size(); ++at) {
    const std::size_t end = marked[at] == '[' ? marked.find_first_of("]\n", at) : std::string::npos;
    if (end != std::string::npos && marked[end] == ']') {
      at = end;
    } else {
      result += marked[at];
    }
  }
  return replace_all(result, "  ", " ");
}

Question ask_hellaswag(const Row& row) {
  const Columns columns(row);
  Question q;
  q.text = clean_wikihow(columns.text("activity_label") + ": " + columns.text("ctx_a") + " " +
                         capitalize(columns.text("ctx_b")));
  for (const std::string& ending : columns.texts("endings")) q.choices.push_back(clean_wikihow(ending));
  const std::int64_t gold = columns.integer("label");
  q.document = row.columns;
  q.document["query"] = q.text;
  q.document["choices"] = q.choices;
  q.document["gold"] = gold;
  return finish(std::move(q), gold, columns, "label");
}

Question ask_piqa(const Row& row) {
  const Columns columns(row);
  Question q;
  q.text = "Question: " + columns.text("goal") + "\nAnswer:";
  q.choices = {columns.text("sol1"), columns.text("sol2")};
  return finish(std::move(q), columns.integer("label"), columns, "label");
}

// {"text": [...], "label": [...]}, or a list of {"text", "label"} as in the first publication.
struct Options {
  std::vector<std::string> texts, labels;
};
Options options_of(const Columns& columns) {
  Options options;
  if (columns.at("choices").is_array()) {
    for (const Json& item : columns.at("choices")) {
      const Columns option(item, concat(columns.origin(), ": in 'choices'"));
      options.texts.push_back(option.text("text"));
      options.labels.push_back(option.text("label"));
    }
  } else {
    const Columns choices = columns.inside("choices");
    options.texts = choices.texts("text");
    options.labels = choices.texts("label");
  }
  if (options.texts.size() != options.labels.size()) {
    fail(ExitCode::data, columns.origin(), ": there are ", options.texts.size(), " choices and ",
         options.labels.size(), " labels");
  }
  return options;
}

std::int64_t index_of_label(const Options& options, std::string_view label, const Columns& columns) {
  for (std::size_t i = 0; i < options.labels.size(); ++i) {
    if (options.labels[i] == label) return static_cast<std::int64_t>(i);
  }
  fail(ExitCode::data, columns.origin(), ": answerKey '", label, "' is none of the choices' labels");
}

Question ask_lettered(const Row& row, const char* text_column, std::string_view before, std::string_view after) {
  const Columns columns(row);
  const bool nested = columns.has("question") && columns.at("question").is_object();
  const Columns asked = nested ? columns.inside("question") : columns;
  const Options options = options_of(asked);
  Question q;
  q.text = concat(before, asked.text(nested ? "stem" : text_column), after);
  q.choices = options.texts;
  const std::string key = columns.text("answerKey");
  return finish(std::move(q), index_of_label(options, strip_left(key), columns), columns, "answerKey");
}

Question ask_arc(const Row& row) { return ask_lettered(row, "question", "Question: ", "\nAnswer:"); }
Question ask_openbookqa(const Row& row) { return ask_lettered(row, "question_stem", "", ""); }

Question ask_sciq(const Row& row) {
  const Columns columns(row);
  Question q;
  q.text = concat(strip_left(columns.text("support")), "\nQuestion: ", columns.text("question"), "\nAnswer:");
  for (const char* name : {"distractor1", "distractor2", "distractor3", "correct_answer"}) {
    q.choices.push_back(columns.text(name));
  }
  return finish(std::move(q), 3, columns, "correct_answer");
}

Question ask_boolq(const Row& row) {
  const Columns columns(row);
  const char* label = columns.has("label") || !columns.has("answer") ? "label" : "answer";
  Question q;
  q.text = concat(columns.text("passage"), "\nQuestion: ", columns.text("question"), "?\nAnswer:");
  q.choices = {"no", "yes"};
  return finish(std::move(q), columns.integer(label), columns, label);
}

// The blank is filled by each option in turn; what follows it is scored.
Question ask_winogrande(const Row& row) {
  const Columns columns(row);
  const std::string sentence = columns.text("sentence");
  const auto blank = sentence.find('_');
  if (blank == std::string::npos) fail(ExitCode::data, columns.origin(), ": 'sentence' has no blank ('_')");
  Question q;
  for (const char* option : {"option1", "option2"}) {
    q.contexts.push_back(sentence.substr(0, blank) + columns.text(option));
  }
  q.choices = {std::string(strip(std::string_view(sentence).substr(blank + 1)))};
  if (q.choices[0].empty()) fail(ExitCode::data, columns.origin(), ": nothing follows the blank of 'sentence'");
  q = finish(std::move(q), columns.integer("answer") - 1, columns, "answer");
  q.text = q.contexts[q.gold];
  q.example = q.target = q.choices[0];
  return q;
}

}  // namespace

std::vector<Task> multiple_choice() {
  Task hellaswag = choice_task("hellaswag", "how a described scene goes on", true);
  hellaswag.names = {"hellaswag", "Rowan/hellaswag"};
  hellaswag.ask = ask_hellaswag;

  Task piqa = choice_task("piqa", "physical common sense, two solutions", true);
  piqa.ask = ask_piqa;

  Task arc_easy = choice_task("arc_easy", "science questions for schools, easy part", true);
  arc_easy.names = {"arc_easy", "ARC-Easy", "ai2_arc/ARC-Easy"};
  arc_easy.split = "test";
  arc_easy.exclude_document = false;
  arc_easy.ask = ask_arc;
  Task arc_challenge = arc_easy;
  arc_challenge.name = "arc_challenge";
  arc_challenge.summary = "science questions for schools, hard part";
  arc_challenge.names = {"arc_challenge", "ARC-Challenge", "ai2_arc/ARC-Challenge"};

  Task winogrande = choice_task("winogrande", "what a blank refers to", false);
  winogrande.names = {"winogrande", "winogrande_xl", "winogrande/winogrande_xl"};
  winogrande.ask = ask_winogrande;

  Task openbookqa = choice_task("openbookqa", "elementary science facts", true);
  openbookqa.names = {"openbookqa", "openbookqa/main"};
  openbookqa.split = "test";
  openbookqa.exclude_document = false;
  openbookqa.ask = ask_openbookqa;

  Task boolq = choice_task("boolq", "yes or no about a passage", false);
  boolq.names = {"boolq", "super_glue/boolq"};
  boolq.version = 2.0;
  boolq.ask = ask_boolq;

  Task sciq = choice_task("sciq", "science questions with a supporting passage", true);
  sciq.split = "test";
  sciq.exclude_document = false;
  sciq.ask = ask_sciq;
  return {hellaswag, piqa, arc_easy, arc_challenge, winogrande, openbookqa, boolq, sciq};
}

}  // namespace satformer::tasks
