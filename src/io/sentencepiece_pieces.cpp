#include "io/sentencepiece_pieces.h"

#include <utility>

#include "io/protobuf_fields.h"

namespace satformer {

SentencePieces read_sentencepieces(std::string_view model) {
  SentencePieces result;
  for (ProtobufFields top(model); top.next();) {
    if (top.field == 1) {
      SentencePieces::Piece piece;
      for (ProtobufFields in(top.bytes); in.next();) {
        if (in.field == 1) piece.text = std::string(in.bytes);
        if (in.field == 2) piece.score = in.number();
        if (in.field == 3) piece.kind = in.integer;
      }
      result.pieces.push_back(std::move(piece));
    } else if (top.field == 2) {
      for (ProtobufFields in(top.bytes); in.next();) {
        if (in.field == 3) result.model_type = in.integer;
        if (in.field == 35) result.byte_fallback = in.integer;
        if (in.field == 24) result.suffix = in.integer != 0;
      }
    } else if (top.field == 3) {
      for (ProtobufFields in(top.bytes); in.next();) {
        if (in.field == 2) result.charsmap = std::string(in.bytes);
        if (in.field == 3) result.prefix = in.integer != 0;
        if (in.field == 4) result.collapse = in.integer != 0;
        if (in.field == 5) result.escape = in.integer != 0;
      }
    }
  }
  return result;
}

}  // namespace satformer
