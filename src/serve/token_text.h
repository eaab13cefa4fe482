// A tokenizer as clients see it: special tokens written in a text, and the text of single tokens.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "io/tokenizer.h"

namespace satformer::serve {

class TokenText {
 public:
  // The tokenizer outlives this.
  TokenText(const Tokenizer& tokenizer, bool add_bos);

  // With `special`, "</s>" and the like become their one id. BOS comes first if `bos`, the server adds one and the
  // tokenizer has it.
  std::vector<std::int64_t> encode(std::string_view text, bool bos, bool special) const;
  std::string decode(const std::vector<std::int64_t>& ids) const;  // bytes that are not UTF-8 as U+FFFD
  // The special token that a text begins with, or an empty text.
  std::string special_at(std::string_view text) const;
  // One token alone: special ones by name, part of a character as "bytes:\xe2\x80".
  std::string name(std::int64_t id) const;
  std::string bytes(std::int64_t id) const;  // of its text; empty for special tokens
  const Tokenizer& tokenizer() const { return tokenizer_; }
  bool add_bos() const { return add_bos_; }

 private:
  const Tokenizer& tokenizer_;
  bool add_bos_;
  std::map<std::string, std::int32_t, std::less<>> special_;
  std::string special_starts_;  // their first bytes
};

}  // namespace satformer::serve
