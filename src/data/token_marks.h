// What is known of a token beyond its id: its kind, and whether it is a target that counts. One byte; files keep it
// beside the shard (docs/commands/prepare.md).
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace satformer {

// The numbers are those in files. New kinds go to the end.
enum class TokenKind : std::uint8_t {
  noise,       // says nothing about any answer
  key,         // what an answer is found by, where it is stated
  value,       // what is found, where it is stated
  query,       // what an answer is found by, where it is asked for
  answer,      // what is found, where it is asked for
  raw,         // mixed recall: a value that is returned as it is, stated or asked for
  contextual,  // mixed recall: a value that depends on the token before it, likewise
  context,     // mixed recall: the token before, where it counts
  content,     // text: names, numbers, nouns, verbs, adjectives
  structure,   // punctuation, line ends, separators, end of document
  function,    // text: articles, prepositions, pronouns, auxiliary verbs
};
inline constexpr std::array<std::string_view, 11> token_kind_names = {
    "noise", "key", "value", "query", "answer", "raw", "contextual", "context", "content", "structure", "function"};
inline constexpr std::size_t num_token_kinds = token_kind_names.size();

class TokenMark {
 public:
  TokenMark() = default;
  explicit TokenMark(TokenKind kind, bool counted = false)
      : byte_(static_cast<std::uint8_t>(static_cast<std::uint8_t>(kind) | (counted ? counted_bit : 0))) {}
  static TokenMark from_byte(std::uint8_t byte) {
    TokenMark mark;
    mark.byte_ = byte;
    return mark;
  }
  TokenKind kind() const { return static_cast<TokenKind>(byte_ & 0x7F); }
  bool counted() const { return (byte_ & counted_bit) != 0; }
  std::uint8_t byte() const { return byte_; }
  bool operator==(const TokenMark&) const = default;

 private:
  static constexpr std::uint8_t counted_bit = 0x80;
  std::uint8_t byte_ = 0;
};
static_assert(sizeof(TokenMark) == 1);

inline std::string_view kind_name(TokenKind kind) { return token_kind_names[static_cast<std::size_t>(kind)]; }

}  // namespace satformer
