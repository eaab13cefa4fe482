// Induction: triggers stand somewhere in noise, each with a value after it, and come again at the end.
#include <algorithm>

#include "data/synthetic/check.h"
#include "data/synthetic/task.h"

namespace satformer::synthetic {
namespace {

ExampleMaker make_induction(const SyntheticOptions& o, const Tokenizer*) {
  need_length(o, 4 * o.pairs, concat(o.pairs, " triggers, stated and asked for"));
  need_vocab(o, o.pairs + 2, concat(o.pairs, " triggers"));
  const std::int64_t first_part = o.seq_length - 2 * o.pairs;
  return [=](Draws& draws) {
    const auto noise = [&] { return draws.between(o.pairs, o.vocab_size - 1); };
    // Trigger i takes the place of one of first_part - pairs things, and its value makes it two tokens.
    std::vector<std::int64_t> places = draws.distinct(o.pairs, first_part - o.pairs);
    std::sort(places.begin(), places.end());
    const auto trigger = draws.distinct(o.pairs, o.pairs), order = draws.distinct(o.pairs, o.pairs);
    std::vector<std::int64_t> value;
    SyntheticExample example;
    for (std::int64_t thing = 0; thing < first_part - o.pairs; ++thing) {
      if (value.size() < places.size() && places[value.size()] == thing) {
        example.add(trigger[value.size()], TokenKind::key);
        value.push_back(noise());
        example.add(value.back(), TokenKind::value);
      } else {
        example.add(noise(), TokenKind::noise);
      }
    }
    for (const std::int64_t asked : order) {
      example.add(trigger[static_cast<std::size_t>(asked)], TokenKind::query);
      example.add(value[static_cast<std::size_t>(asked)], TokenKind::answer, true);
    }
    return example;
  };
}

}  // namespace

SyntheticTask induction() {
  return {.name = "induction",
          .summary = "what followed a trigger in noise, at its second time",
          .options = {"vocab_size", "pairs"},
          .targets = {TokenKind::answer},
          .make = make_induction};
}

}  // namespace satformer::synthetic
