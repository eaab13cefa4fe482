#include "io/added_tokens.h"

#include <unicode/uchar.h>

#include <algorithm>

#include "base/unicode.h"

namespace satformer {
namespace {

CodePoint last_code_point(std::string_view text) {
  std::size_t start = text.size() - 1;
  while (start > 0 && (static_cast<unsigned char>(text[start]) & 0xC0) == 0x80) --start;
  CodePoint c = first_code_point(text.substr(start));
  c.size = text.size() - start;
  return c;
}

bool is_space(const CodePoint& c) {
  return u_hasBinaryProperty(static_cast<UChar32>(c.value), UCHAR_WHITE_SPACE) != 0;
}

// \w of a regular expression.
bool is_word(const CodePoint& c) {
  const auto value = static_cast<UChar32>(c.value);
  return u_hasBinaryProperty(value, UCHAR_ALPHABETIC) || u_hasBinaryProperty(value, UCHAR_JOIN_CONTROL) ||
         (U_GET_GC_MASK(value) & (U_GC_M_MASK | U_GC_ND_MASK | U_GC_PC_MASK)) != 0;
}

}  // namespace

AddedTokens::AddedTokens(std::vector<AddedToken> tokens) {
  for (AddedToken& token : tokens) {
    if (token.content.empty()) continue;
    any_ = true;
    by_first_byte_[static_cast<unsigned char>(token.content[0])].push_back(std::move(token));
  }
  for (auto& list : by_first_byte_) {
    std::stable_sort(list.begin(), list.end(),
                     [](const AddedToken& a, const AddedToken& b) { return a.content.size() > b.content.size(); });
  }
}

const AddedToken* AddedTokens::longest_at(std::string_view text) const {
  for (const AddedToken& token : by_first_byte_[static_cast<unsigned char>(text[0])]) {
    if (text.starts_with(token.content)) return &token;
  }
  return nullptr;
}

std::vector<AddedTokens::Part> AddedTokens::split(std::string_view text) const {
  std::vector<Part> parts;
  std::size_t done = 0;
  for (std::size_t at = 0; any_ && at < text.size();) {
    const AddedToken* token = longest_at(text.substr(at));
    if (!token) {
      ++at;
      continue;
    }
    std::size_t begin = at, end = at + token->content.size();
    at = end;
    if (token->single_word) {
      const bool free_left = begin == 0 || !is_word(last_code_point(text.substr(0, begin)));
      const bool free_right = end == text.size() || !is_word(first_code_point(text.substr(end)));
      if (!free_left || !free_right) continue;
    }
    while (token->lstrip && begin > done) {
      const CodePoint c = last_code_point(text.substr(0, begin));
      if (!is_space(c)) break;
      begin -= c.size;
    }
    while (token->rstrip && end < text.size()) {
      const CodePoint c = first_code_point(text.substr(end));
      if (!is_space(c)) break;
      end += c.size;
    }
    begin = std::max(begin, done);
    if (begin > done) parts.push_back({text.substr(done, begin - done), -1});
    parts.push_back({text.substr(begin, end - begin), token->id});
    done = end;
    at = std::max(at, done);
  }
  if (done < text.size()) parts.push_back({text.substr(done), -1});
  return parts;
}

}  // namespace satformer
