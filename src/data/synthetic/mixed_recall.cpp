// Mixed recall: half of the pairs return their value v as it is; the other half return (v + m) mod 8, m being the
// digit right before the pair, 1 to 4: never the raw value, and from v alone a quarter of the answers at most. A pair
// is one token, which holds key, value and which of the two it is, so that no circuit has to join a key with what
// follows it: what a later layer needs of a raw pair is in the token itself, what it needs of a contextual one is
// not.
#include "data/synthetic/check.h"
#include "data/synthetic/task.h"

namespace satformer::synthetic {
namespace {

constexpr std::int64_t digits = 8, least_noise = 8, largest_before = 4;

// Ids: the digits, then a query for each key, then pairs by (contextual, key, value), then noise.
struct Vocabulary {
  std::int64_t keys, first_query, first_pair, first_noise;
  explicit Vocabulary(std::int64_t size)
      : keys((size - digits - least_noise) / (1 + 2 * digits)),
        first_query(digits),
        first_pair(first_query + keys),
        first_noise(first_pair + 2 * digits * keys) {}
  std::int64_t pair(bool contextual, std::int64_t key, std::int64_t value) const {
    return first_pair + ((contextual ? keys : 0) + key) * digits + value;
  }
};

ExampleMaker make_mixed_recall(const SyntheticOptions& o, const Tokenizer*) {
  const std::int64_t asked = number_of_questions(o), slots = (o.seq_length - 2 * o.pairs) / 2;
  need_length(o, 2 * (o.pairs + asked), concat(o.pairs, " pairs and ", asked, " questions"));
  need_vocab(o, digits + least_noise + o.pairs * (1 + 2 * digits),
             concat(o.pairs, " keys (17 ids each), 8 digits and 8 ids of noise"));
  const Vocabulary ids(o.vocab_size);
  return [=](Draws& draws) {
    const auto key = draws.distinct(o.pairs, ids.keys), order = draws.distinct(o.pairs, o.pairs);
    std::vector<std::int64_t> answer(key.size());
    std::vector<TokenKind> kind(key.size());
    SyntheticExample example;
    // Every other pair in a random order: the halves are exact.
    for (std::size_t i = 0; i < key.size(); ++i) {
      const bool contextual = order[i] % 2 == 1;
      const std::int64_t before = draws.between(1, largest_before), value = draws.below(digits);
      kind[i] = contextual ? TokenKind::contextual : TokenKind::raw;
      answer[i] = contextual ? (value + before) % digits : value;
      example.add(before, contextual ? TokenKind::context : TokenKind::noise);
      example.add(ids.pair(contextual, key[i], value), kind[i]);
    }
    while (example.size() < o.seq_length)
      example.add(draws.between(ids.first_noise, o.vocab_size - 1), TokenKind::noise);
    const auto slot = draws.distinct(asked, slots), which = draws.distinct(asked, o.pairs);
    for (std::size_t i = 0; i < slot.size(); ++i) {
      const auto at = static_cast<std::size_t>(2 * o.pairs + 2 * slot[i]), pair = static_cast<std::size_t>(which[i]);
      example.ids[at] = static_cast<std::int32_t>(ids.first_query + key[pair]);
      example.marks[at] = TokenMark(TokenKind::query);
      example.ids[at + 1] = static_cast<std::int32_t>(answer[pair]);
      example.marks[at + 1] = TokenMark(kind[pair], true);
    }
    return example;
  };
}

}  // namespace

SyntheticTask mixed_recall() {
  return {.name = "mixed_recall",
          .summary = "half of the values as they are, half changed by the token before",
          .options = {"vocab_size", "pairs", "questions"},
          .targets = {TokenKind::raw, TokenKind::contextual},
          .make = make_mixed_recall};
}

}  // namespace satformer::synthetic
