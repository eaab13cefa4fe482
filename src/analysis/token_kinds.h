// What kind of token each token of a text is.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "io/tokenizer.h"

namespace satformer {

// Thread-compatible: one pass at a time.
class TokenKinds {
 public:
  virtual ~TokenKinds() = default;
  virtual const std::vector<std::string>& names() const = 0;  // at least one, at most 255
  // The number of each token's kind. `window` is the window that the tokens stand in; -1: a text of its own.
  virtual std::vector<std::uint8_t> of(std::int64_t window, std::span<const std::int64_t> tokens) = 0;
};

// Kinds by rules on whole words. The tokens' bytes are joined and cut into units: a run of letters, digits, marks and
// apostrophes or hyphens within it; a markup tag <...>; an entity &...;; a run of one other visible character; a run
// of white space. A unit has the kind of the first rule that fits it, a token that of the visible unit which has most
// of its bytes (the first of several), or of its white space. Tokens without bytes (BOS, EOS) have the kind of
// "special". A word that the window's edge cuts is judged by the rest that is seen.
//
// The rules as JSON:
//   {"kinds": ["semantic", ...],               names and their order; optional: in the order of appearance
//    "rules": [{"kind": "functional", "words": ["the", ...]},         equal, regardless of case
//              {"kind": "structural", "pattern": "^[^\\p{L}\\p{N}]+$"}],  a regular expression (ICU) found in it
//    "otherwise": "semantic",                  units that no rule fits
//    "special": "structural"}                  optional: as "otherwise"
//
// Error(config) with `origin` for what is malformed. `tokenizer` outlives the result.
std::unique_ptr<TokenKinds> make_rule_kinds(const Tokenizer& tokenizer, const Json& rules, const std::string& origin);

// The rules that hold without a file: structural (no letter or digit in it, markup, special tokens), functional
// (English function words), semantic (the rest).
Json default_kind_rules();

// The units of a text as above: end positions in bytes, rising to text.size().
std::vector<std::size_t> text_units(std::string_view text);

}  // namespace satformer
