// Added tokens of a tokenizer.json: texts that are one token each and are looked for before everything else.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace satformer {

struct AddedToken {
  std::int32_t id = 0;
  std::string content;
  bool special = false, single_word = false, lstrip = false, rstrip = false, normalized = false;
};

class AddedTokens {
 public:
  AddedTokens() = default;
  explicit AddedTokens(std::vector<AddedToken> tokens);
  struct Part {
    std::string_view text;
    std::int32_t id = -1;  // -1: text between tokens
  };
  // The leftmost longest tokens, and what lies between them. Empty texts between are left out.
  std::vector<Part> split(std::string_view text) const;

 private:
  const AddedToken* longest_at(std::string_view text) const;
  std::array<std::vector<AddedToken>, 256> by_first_byte_;  // the longest first
  bool any_ = false;
};

}  // namespace satformer
