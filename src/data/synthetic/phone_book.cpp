// Phone book: names of several tokens with numbers of several digits; then some names are asked for. Several people
// of a book share the first part of their names, so that no part alone tells who is meant.
#include <algorithm>

#include "base/count_of.h"
#include "data/synthetic/check.h"
#include "data/synthetic/task.h"

namespace satformer::synthetic {
namespace {

constexpr std::int64_t separator = 0, question_mark = 1, first_digit = 2, first_name = 12;

using Tokens = std::vector<std::int64_t>;

std::vector<Tokens> draw_names(Draws& draws, const SyntheticOptions& o) {
  const std::int64_t parts = o.vocab_size - first_name;
  const auto shared = draws.distinct(o.key_length > 1 ? (o.pairs + 1) / 2 : o.pairs, parts);
  std::vector<Tokens> names;
  while (static_cast<std::int64_t>(names.size()) < o.pairs) {
    Tokens name = {first_name +
                   shared[static_cast<std::size_t>(draws.below(static_cast<std::int64_t>(shared.size())))]};
    while (static_cast<std::int64_t>(name.size()) < o.key_length) name.push_back(first_name + draws.below(parts));
    if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(std::move(name));
  }
  return names;
}

ExampleMaker make_phone_book(const SyntheticOptions& o, const Tokenizer*) {
  const std::int64_t entry = o.key_length + o.value_length + 1;  // and as many for a question
  const std::int64_t least = o.questions > 0 ? number_of_questions(o) : 1;
  need_length(o, (o.pairs + least) * entry,
              concat(o.pairs, " entries and ", count_of(least, "question"), " of ", entry, " tokens each"));
  need_vocab(o, first_name + o.pairs,
             concat("separator, question mark, ten digits and the names of ", o.pairs, " people"));
  const std::int64_t asked = o.questions > 0 ? o.questions : std::min(o.pairs, o.seq_length / entry - o.pairs);
  return [=](Draws& draws) {
    const std::vector<Tokens> names = draw_names(draws, o);
    std::vector<Tokens> numbers(names.size());
    SyntheticExample example;
    for (std::size_t i = 0; i < names.size(); ++i) {
      for (const std::int64_t part : names[i]) example.add(part, TokenKind::key);
      for (std::int64_t d = 0; d < o.value_length; ++d) {
        numbers[i].push_back(first_digit + draws.below(10));
        example.add(numbers[i].back(), TokenKind::value);
      }
      example.add(separator, TokenKind::structure);
    }
    for (const std::int64_t who : draws.distinct(asked, o.pairs)) {
      example.add(question_mark, TokenKind::structure);
      for (const std::int64_t part : names[static_cast<std::size_t>(who)]) example.add(part, TokenKind::query);
      for (const std::int64_t digit : numbers[static_cast<std::size_t>(who)])
        example.add(digit, TokenKind::answer, true);
    }
    while (example.size() < o.seq_length) example.add(separator, TokenKind::noise);
    return example;
  };
}

}  // namespace

SyntheticTask phone_book() {
  return {.name = "phone_book",
          .summary = "numbers of several digits by names of several tokens",
          .options = {"vocab_size", "pairs", "questions", "key_length", "value_length"},
          .targets = {TokenKind::answer},
          .make = make_phone_book};
}

}  // namespace satformer::synthetic
