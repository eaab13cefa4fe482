// Selective copying: tokens scattered among blanks are to be repeated in order after a marker.
#include <algorithm>

#include "data/synthetic/check.h"
#include "data/synthetic/task.h"

namespace satformer::synthetic {
namespace {

constexpr std::int64_t blank = 0, marker = 1, first_data = 2;

ExampleMaker make_selective_copy(const SyntheticOptions& o, const Tokenizer*) {
  need_length(o, 2 * o.pairs + 1, concat(o.pairs, " tokens, a marker and their copy"));
  return [=](Draws& draws) {
    const std::int64_t first_part = o.seq_length - o.pairs - 1;
    std::vector<std::int64_t> places = draws.distinct(o.pairs, first_part), data;
    std::sort(places.begin(), places.end());
    SyntheticExample example;
    for (std::int64_t t = 0; t < first_part; ++t) {
      if (data.size() < places.size() && places[data.size()] == t) {
        data.push_back(draws.between(first_data, o.vocab_size - 1));
        example.add(data.back(), TokenKind::value);
      } else {
        example.add(blank, TokenKind::noise);
      }
    }
    example.add(marker, TokenKind::structure);
    for (const std::int64_t id : data) example.add(id, TokenKind::answer, true);
    return example;
  };
}

}  // namespace

SyntheticTask selective_copy() {
  return {.name = "selective_copy",
          .summary = "tokens scattered among blanks, repeated in order",
          .options = {"vocab_size", "pairs"},
          .targets = {TokenKind::answer},
          .make = make_selective_copy};
}

}  // namespace satformer::synthetic
