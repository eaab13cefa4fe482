// Multi-query associative recall after zoology (Arora et al., 2023): keys and values first, then each key once more
// after a gap, followed by its value.
#include <cmath>

#include "data/synthetic/check.h"
#include "data/synthetic/task.h"

namespace satformer::synthetic {
namespace {

ExampleMaker make_mqar(const SyntheticOptions& o, const Tokenizer*) {
  const std::int64_t first_value = o.vocab_size / 2, keys = first_value - 1, values = o.vocab_size - first_value;
  const std::int64_t slots = (o.seq_length - 2 * o.pairs) / 2;
  need_length(o, 4 * o.pairs, concat(o.pairs, " pairs and as many queries"));
  need_vocab(o, 2 * o.pairs + 2, concat(o.pairs, " keys and values"));
  if (o.seq_length % 2 != 0) fail(ExitCode::config, "mqar: seq_length = ", o.seq_length, " must be even");
  std::vector<double> weights;
  for (std::int64_t gap = 1; gap <= slots; ++gap) weights.push_back(std::pow(static_cast<double>(gap), o.power - 1));
  return [=](Draws& draws) {
    const auto key = draws.distinct(o.pairs, keys), value = draws.distinct(o.pairs, values);
    const auto slot = draws.distinct_weighted(o.pairs, weights);
    SyntheticExample example;
    for (std::size_t i = 0; i < key.size(); ++i) {
      example.add(1 + key[i], TokenKind::key);
      example.add(first_value + value[i], TokenKind::value);
    }
    while (example.size() < o.seq_length) example.add(draws.below(o.vocab_size), TokenKind::noise);
    for (std::size_t i = 0; i < key.size(); ++i) {
      const auto at = static_cast<std::size_t>(2 * o.pairs + 2 * slot[i]);
      example.ids[at] = static_cast<std::int32_t>(1 + key[i]);
      example.marks[at] = TokenMark(TokenKind::query);
      example.ids[at + 1] = static_cast<std::int32_t>(first_value + value[i]);
      example.marks[at + 1] = TokenMark(TokenKind::answer, true);
    }
    return example;
  };
}

}  // namespace

SyntheticTask mqar() {
  return {.name = "mqar",
          .summary = "multi-query associative recall, zoology's recipe",
          .options = {"vocab_size", "pairs", "power"},
          .targets = {TokenKind::answer},
          .make = make_mqar};
}

}  // namespace satformer::synthetic
