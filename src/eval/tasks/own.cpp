// Tasks of our own: recall at a chosen distance, copying, and the loss on program text.
#include <algorithm>
#include <array>

#include "base/error.h"
#include "base/random.h"
#include "base/unicode.h"
#include "eval/tasks/tasks.h"

namespace satformer::tasks {
namespace {

constexpr std::array colours = {"red", "green", "blue", "white", "black", "yellow", "brown", "grey"};
constexpr std::array things = {"lamp", "box", "door", "chair", "cup", "book", "key", "bag"};
constexpr std::array filler = {
    "The day was long and the road was dry.",     "A cold wind came from the north in the night.",
    "People walked by and said nothing at all.",  "Some birds sat on the wall and sang.",
    "There was a small garden behind the house.", "The water in the river was clear again.",
    "He had been there once, many years before.", "They ate bread and went back to work.",
};
constexpr std::array distances = {8, 32, 128, 512};  // words between the fact and the question

// Draws that depend on the document alone.
class Draws {
 public:
  Draws(const char* task, std::int64_t document) : random_(hash_name(task), static_cast<std::uint64_t>(document)) {}
  std::size_t below(std::size_t n) {
    return static_cast<std::size_t>(random_.uniform(count_++) * static_cast<double>(n));
  }
  template <class List>
  std::string of(const List& list) {
    return list[below(list.size())];
  }

 private:
  Philox random_;
  std::uint64_t count_ = 0;
};

Row generated(const char* task, std::int64_t document, Json columns) {
  Row row;
  row.origin = concat(task, ":", document);
  row.columns = std::move(columns);
  return row;
}

// Four things have codes; one is asked for, its fact `distance` words before the question, the others among the text
// before it.
std::vector<Row> recall_rows(std::int64_t limit) {
  std::vector<Row> rows;
  const std::int64_t count = limit > 0 ? limit : 400;
  for (std::int64_t d = 0; d < count; ++d) {
    Draws draws("recall_distance", d);
    const auto distance = distances[static_cast<std::size_t>(d) % distances.size()];
    std::vector<std::string> names, codes;
    while (names.size() < 4) {
      const std::string name = draws.of(colours) + " " + draws.of(things);
      const std::string code = std::to_string(1000 + draws.below(9000));
      if (std::find(names.begin(), names.end(), name) != names.end() ||
          std::find(codes.begin(), codes.end(), code) != codes.end()) {
        continue;
      }
      names.push_back(name);
      codes.push_back(code);
    }
    const std::size_t asked = draws.below(4);
    const auto fact = [&](std::size_t i) { return concat("The code of the ", names[i], " is ", codes[i], ". "); };
    std::string text;
    for (std::size_t i = 0; i < 4; ++i) {
      if (i != asked) text += fact(i);
    }
    text += fact(asked);
    std::vector<std::string> words;
    while (words.size() < static_cast<std::size_t>(distance)) {
      for (std::string& word : split_at_space(draws.of(filler))) words.push_back(std::move(word));
    }
    for (std::size_t i = 0; i < static_cast<std::size_t>(distance); ++i) text += words[i] + " ";
    text += concat("The code of the ", names[asked], " is");
    rows.push_back(generated("recall_distance", d,
                             {{"text", text}, {"choices", codes}, {"label", asked}, {"distance", distance}}));
  }
  return rows;
}

Question ask_recall(const Row& row) {
  const Columns columns(row);
  Question q;
  q.text = columns.text("text");
  q.choices = columns.texts("choices");
  q.gold = check_gold(columns.integer("label"), q.choices.size(), columns, "label");
  q.example = q.choices[q.gold];
  q.target = std::to_string(q.gold);
  q.document = row.columns;
  return q;
}

// acc over all, then over the documents of each distance.
Scores grade_recall(const Question& q, const Response& r) {
  const auto best = std::max_element(r.likelihoods.begin(), r.likelihoods.end(),
                                     [](const auto& a, const auto& b) { return a.first < b.first; });
  const double hit = static_cast<std::size_t>(best - r.likelihoods.begin()) == q.gold ? 1.0 : 0.0;
  Scores scores = {{hit}};
  for (const int distance : distances) scores.push_back({hit, q.document["distance"] == distance ? 1.0 : 0.0});
  return scores;
}

// A line of unrelated words stands twice and begins a third time.
std::vector<Row> copy_rows(std::int64_t limit) {
  std::vector<Row> rows;
  for (std::int64_t d = 0; d < (limit > 0 ? limit : 200); ++d) {
    Draws draws("copy_text", d);
    std::vector<std::string> words;
    const std::size_t count = 8 + draws.below(9);
    while (words.size() < count) words.push_back(draws.below(2) ? draws.of(things) : draws.of(colours));
    const auto join = [&](std::size_t begin, std::size_t end) {
      std::string text;
      for (std::size_t i = begin; i < end; ++i) text += (i > begin ? " " : "") + words[i];
      return text;
    };
    const std::string line = join(0, count) + "\n";
    rows.push_back(generated("copy_text", d, {{"text", line + line + join(0, 3)}, {"rest", join(3, count)}}));
  }
  return rows;
}

Question ask_copy(const Row& row) {
  const Columns columns(row);
  Question q;
  q.text = columns.text("text");
  q.target = q.example = columns.text("rest");
  q.answers = {q.target};
  q.document = row.columns;
  return q;
}

// exact_match: the whole rest; copied: share of its words given before the first wrong one.
Scores grade_copy(const Question& q, const Response& r) {
  const std::vector<std::string> wanted = split_at_space(q.target), given = split_at_space(r.text);
  std::size_t same = 0;
  while (same < wanted.size() && same < given.size() && wanted[same] == given[same]) ++same;
  return {{same == wanted.size() && given.size() == wanted.size() ? 1.0 : 0.0},
          {static_cast<double>(same) / static_cast<double>(wanted.size())}};
}

Question ask_program(const Row& row) {
  const Columns columns(row);
  const char* column = columns.has("text") ? "text" : columns.has("code") ? "code" : "content";
  Question q;
  q.choices = {columns.text(column)};
  if (q.choices[0].empty()) fail(ExitCode::data, columns.origin(), ": '", column, "' is empty");
  q.target = q.choices[0];
  q.document = row.columns;
  return q;
}

}  // namespace

std::vector<Task> own() {
  Task recall;
  recall.name = "recall_distance";
  recall.version = 1;
  recall.summary = "a code named 8, 32, 128 or 512 words earlier, among four";
  recall.kind = RequestKind::choice;
  recall.make_rows = recall_rows;
  recall.metrics = {{"acc"}};
  for (const int distance : distances) recall.metrics.push_back({concat("acc@", distance)});
  recall.ask = ask_recall;
  recall.grade = grade_recall;

  Task copy;
  copy.name = "copy_text";
  copy.version = 1;
  copy.summary = "the rest of a line of unrelated words that stood twice before";
  copy.kind = RequestKind::generate;
  copy.make_rows = copy_rows;
  copy.generation = {.max_tokens = 64, .stop = {"\n"}, .logged = {{"until", {"\n"}}, {"max_gen_toks", 64}}};
  copy.metrics = {{"exact_match"}, {"copied"}};
  copy.ask = ask_copy;
  copy.grade = grade_copy;

  Task program;
  program.name = "program_text";
  program.version = 1;
  program.summary = "loss on source files";
  program.kind = RequestKind::rolling;
  program.names = {"program_text", "code"};
  program.split = program.example_split = "test";
  program.metrics = {{"token_perplexity", Aggregation::weighted_perplexity, false},
                     {"byte_perplexity", Aggregation::weighted_perplexity, false},
                     {"bits_per_byte", Aggregation::bits_per_byte, false}};
  program.ask = ask_program;
  return {recall, copy, program};
}

}  // namespace satformer::tasks
