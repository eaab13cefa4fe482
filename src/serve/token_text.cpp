#include "serve/token_text.h"

#include <cstdio>

#include "base/error.h"
#include "base/unicode.h"

namespace satformer::serve {

TokenText::TokenText(const Tokenizer& tokenizer, bool add_bos) : tokenizer_(tokenizer), add_bos_(add_bos) {
  for (std::int32_t id = 0; id < tokenizer.vocab_size(); ++id) {
    if (!tokenizer.is_special(id)) continue;
    const std::string piece = tokenizer.piece(id);
    if (piece.empty()) continue;
    special_.emplace(piece, id);
    if (special_starts_.find(piece[0]) == std::string::npos) special_starts_ += piece[0];
  }
}

std::vector<std::int64_t> TokenText::encode(std::string_view text, bool bos, bool special) const {
  std::vector<std::int64_t> ids;
  if (bos && add_bos_ && tokenizer_.bos_id() >= 0) ids.push_back(tokenizer_.bos_id());
  bool first = true;
  const auto add = [&](std::string_view part) {
    if (part.empty()) return;
    for (const std::int32_t id : first ? tokenizer_.encode(part) : tokenizer_.encode_continued(part))
      ids.push_back(id);
    first = false;
  };
  std::size_t begin = 0;
  for (std::size_t at = 0; special && at < text.size();) {
    at = text.find_first_of(special_starts_, at);
    if (at == std::string_view::npos) break;
    const std::string piece = special_at(text.substr(at));
    if (piece.empty()) {
      ++at;
      continue;
    }
    add(text.substr(begin, at - begin));
    ids.push_back(special_.at(piece));
    first = false;
    begin = at += piece.size();
  }
  add(text.substr(begin));
  return ids;
}

std::string TokenText::special_at(std::string_view text) const {
  const std::string* longest = nullptr;
  for (const auto& [piece, id] : special_) {
    if (text.starts_with(piece) && (!longest || piece.size() > longest->size())) longest = &piece;
  }
  return longest ? *longest : std::string();
}

std::string TokenText::decode(const std::vector<std::int64_t>& ids) const {
  std::vector<std::int32_t> known;
  for (const std::int64_t id : ids) {
    if (id < tokenizer_.vocab_size()) known.push_back(static_cast<std::int32_t>(id));
  }
  return replace_invalid_utf8(tokenizer_.decode(known));
}

std::string TokenText::bytes(std::int64_t id) const {
  return id < tokenizer_.vocab_size() ? tokenizer_.token_bytes(static_cast<std::int32_t>(id), false) : std::string();
}

std::string TokenText::name(std::int64_t id) const {
  if (id >= tokenizer_.vocab_size()) return concat("<id ", id, ">");
  const auto known = static_cast<std::int32_t>(id);
  if (tokenizer_.is_special(known)) return tokenizer_.piece(known);
  const std::string text = tokenizer_.token_bytes(known, false);
  if (text.empty()) return tokenizer_.piece(known);
  for (std::size_t at = 0; at < text.size();) {
    const int length = utf8_length(std::string_view(text).substr(at));
    if (length <= 0) {
      std::string name = "bytes:";
      char hex[8];
      for (const char c : text) {
        std::snprintf(hex, sizeof hex, "\\x%02x", static_cast<unsigned>(static_cast<unsigned char>(c)));
        name += hex;
      }
      return name;
    }
    at += static_cast<std::size_t>(length);
  }
  return text;
}

}  // namespace satformer::serve
