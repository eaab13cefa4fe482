// What a SentencePiece model file says, for other programs' forms of it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace satformer {

struct SentencePieces {
  enum Kind : std::uint64_t { normal = 1, unknown = 2, control = 3, user_defined = 4, unused = 5, byte = 6 };
  enum Algorithm : std::uint64_t { unigram = 1, bpe = 2 };
  struct Piece {
    std::string text;
    float score = 0;
    std::uint64_t kind = normal;
  };
  std::vector<Piece> pieces;
  std::uint64_t model_type = unigram, byte_fallback = 0;
  std::string charsmap;  // precompiled rules that change characters; empty: none
  bool prefix = true, collapse = true, escape = true, suffix = false;
};

// Of the bytes of a model file that has been loaded before.
SentencePieces read_sentencepieces(std::string_view model);

}  // namespace satformer
