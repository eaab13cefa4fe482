#include "base/unicode.h"

namespace satformer {

CodePoint first_code_point(std::string_view text) {
  constexpr CodePoint invalid{0xFFFD, 1};
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char lead = byte(0);
  if (lead < 0x80) return {lead, 1};
  if (lead < 0xC2 || lead > 0xF4) return invalid;
  const std::size_t size = lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
  if (text.size() < size) return invalid;
  char32_t value = lead & (0x7Fu >> size);
  for (std::size_t i = 1; i < size; ++i) {
    if ((byte(i) & 0xC0) != 0x80) return invalid;
    value = (value << 6) | (byte(i) & 0x3Fu);
  }
  const bool overlong = (size == 3 && value < 0x800) || (size == 4 && value < 0x10000);
  if (overlong || value > 0x10FFFF || (value >= 0xD800 && value < 0xE000)) return invalid;
  return {value, size};
}

void append_utf8(std::string& text, char32_t value) {
  const auto put = [&](char32_t byte) { text += static_cast<char>(byte); };
  if (value < 0x80) {
    put(value);
  } else if (value < 0x800) {
    put(0xC0 | (value >> 6));
    put(0x80 | (value & 0x3F));
  } else if (value < 0x10000) {
    put(0xE0 | (value >> 12));
    put(0x80 | ((value >> 6) & 0x3F));
    put(0x80 | (value & 0x3F));
  } else {
    put(0xF0 | (value >> 18));
    put(0x80 | ((value >> 12) & 0x3F));
    put(0x80 | ((value >> 6) & 0x3F));
    put(0x80 | (value & 0x3F));
  }
}

std::vector<char32_t> code_points(std::string_view text) {
  std::vector<char32_t> result;
  result.reserve(text.size());
  while (!text.empty()) {
    const CodePoint c = first_code_point(text);
    result.push_back(c.value);
    text.remove_prefix(c.size);
  }
  return result;
}

std::int64_t count_characters(std::string_view text) { return static_cast<std::int64_t>(code_points(text).size()); }

std::string one_line(std::string_view text) {
  std::string line;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte >= 0x20 && byte != 0x7f) {
      line += c;
      continue;
    }
    constexpr char digits[] = "0123456789abcdef";
    line += c == '\n' ? "\\n" : c == '\t' ? "\\t" : c == '\r' ? "\\r" : "";
    if (c != '\n' && c != '\t' && c != '\r') line += {'\\', 'x', digits[byte >> 4], digits[byte & 15]};
  }
  return line;
}

std::string replace_invalid_utf8(std::string_view text) {
  std::string result;
  result.reserve(text.size());
  while (!text.empty()) {
    const CodePoint c = first_code_point(text);
    append_utf8(result, c.value);
    text.remove_prefix(c.size);
  }
  return result;
}

bool is_unicode_space(char32_t c) {
  if (c <= 0x20) return c == 0x20 || (c >= 0x09 && c <= 0x0D) || (c >= 0x1C && c <= 0x1F);
  return c == 0x85 || c == 0xA0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 ||
         c == 0x202F || c == 0x205F || c == 0x3000;
}

std::string_view strip_left(std::string_view text) {
  while (!text.empty()) {
    const CodePoint c = first_code_point(text);
    if (!is_unicode_space(c.value)) break;
    text.remove_prefix(c.size);
  }
  return text;
}

std::string_view strip_right(std::string_view text) {
  while (!text.empty()) {
    std::size_t start = text.size() - 1;
    while (start > 0 && text.size() - start < 4 && (static_cast<unsigned char>(text[start]) & 0xC0) == 0x80) --start;
    const CodePoint c = first_code_point(text.substr(start));
    if (c.size != text.size() - start || !is_unicode_space(c.value)) break;
    text.remove_suffix(c.size);
  }
  return text;
}

std::string_view strip(std::string_view text) { return strip_left(strip_right(text)); }

std::string_view strip_characters(std::string_view text, char c) {
  while (text.starts_with(c)) text.remove_prefix(1);
  while (text.ends_with(c)) text.remove_suffix(1);
  return text;
}

std::vector<std::string> split_at_space(std::string_view text) {
  std::vector<std::string> parts;
  std::string part;
  while (!text.empty()) {
    const CodePoint c = first_code_point(text);
    if (!is_unicode_space(c.value)) {
      part += text.substr(0, c.size);
    } else if (!part.empty()) {
      parts.push_back(std::move(part));
      part.clear();
    }
    text.remove_prefix(c.size);
  }
  if (!part.empty()) parts.push_back(std::move(part));
  return parts;
}

std::int64_t count_words(std::string_view text) {
  std::int64_t runs = 0;
  bool in_space = false;
  while (!text.empty()) {
    const CodePoint c = first_code_point(text);
    const bool space = is_unicode_space(c.value);
    if (space && !in_space) ++runs;
    in_space = space;
    text.remove_prefix(c.size);
  }
  return runs + 1;
}

}  // namespace satformer
