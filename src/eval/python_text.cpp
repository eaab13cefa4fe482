#include "eval/python_text.h"

#include <unicode/uchar.h>
#include <unicode/ustring.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <iterator>

#include "base/error.h"
#include "base/unicode.h"

namespace satformer {
namespace {

std::u16string to_utf16(std::string_view text) {
  std::u16string result;
  for (const char32_t c : code_points(text)) {
    if (c < 0x10000) {
      result += static_cast<char16_t>(c);
    } else {
      result += static_cast<char16_t>(0xD800 + ((c - 0x10000) >> 10));
      result += static_cast<char16_t>(0xDC00 + ((c - 0x10000) & 0x3FF));
    }
  }
  return result;
}

std::string to_utf8(const std::u16string& text) {
  std::string result;
  for (std::size_t i = 0; i < text.size(); ++i) {
    char32_t c = text[i];
    if (c >= 0xD800 && c < 0xDC00 && i + 1 < text.size()) c = 0x10000 + ((c - 0xD800) << 10) + (text[++i] - 0xDC00u);
    append_utf8(result, c);
  }
  return result;
}

bool is_ascii(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return static_cast<unsigned char>(c) < 0x80; });
}

char ascii_lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; }

using CaseFunction = int32_t (*)(char16_t*, int32_t, const char16_t*, int32_t, const char*, UErrorCode*);

std::u16string map_case(const std::u16string& text, CaseFunction function) {
  std::u16string result(text.size() * 3 + 8, u'\0');
  UErrorCode status = U_ZERO_ERROR;
  const int32_t size = function(result.data(), static_cast<int32_t>(result.size()), text.data(),
                                static_cast<int32_t>(text.size()), "", &status);
  if (U_FAILURE(status)) fail(ExitCode::internal, "case mapping failed: ", u_errorName(status));
  result.resize(static_cast<std::size_t>(size));
  return result;
}

int32_t to_lower(char16_t* to, int32_t capacity, const char16_t* from, int32_t size, const char* locale,
                 UErrorCode* status) {
  return u_strToLower(to, capacity, from, size, locale, status);
}
int32_t to_upper(char16_t* to, int32_t capacity, const char16_t* from, int32_t size, const char* locale,
                 UErrorCode* status) {
  return u_strToUpper(to, capacity, from, size, locale, status);
}
int32_t to_title(char16_t* to, int32_t capacity, const char16_t* from, int32_t size, const char* locale,
                 UErrorCode* status) {
  return u_strToTitle(to, capacity, from, size, nullptr, locale, status);
}

UChar32 icu(char32_t c) { return static_cast<UChar32>(c); }

bool same_letter(char32_t a, char32_t b) {
  if (a == b) return true;
  return u_tolower(icu(a)) == u_tolower(icu(b)) ||
         u_foldCase(icu(a), U_FOLD_CASE_DEFAULT) == u_foldCase(icu(b), U_FOLD_CASE_DEFAULT);
}

bool is_ascii_punctuation(char c) {
  return (c >= '!' && c <= '/') || (c >= ':' && c <= '@') || (c >= '[' && c <= '`') || (c >= '{' && c <= '~');
}

}  // namespace

std::string lower_case(std::string_view text) {
  if (!is_ascii(text)) return to_utf8(map_case(to_utf16(text), to_lower));
  std::string result(text);
  std::transform(result.begin(), result.end(), result.begin(), ascii_lower);
  return result;
}

std::string upper_case(std::string_view text) { return to_utf8(map_case(to_utf16(text), to_upper)); }

std::string capitalize(std::string_view text) {
  if (text.empty()) return {};
  const std::size_t first = first_code_point(text).size;
  const std::string title = to_utf8(map_case(to_utf16(text.substr(0, first)), to_title));
  // The whole is lowered, since a final sigma depends on what stands before it.
  const std::string before = lower_case(text.substr(0, first));
  return title + lower_case(text).substr(before.size());
}

std::string replace_all(std::string_view text, std::string_view from, std::string_view to) {
  std::string result;
  for (;;) {
    const auto at = text.find(from);
    if (at == std::string_view::npos) break;
    result += text.substr(0, at);
    result += to;
    text.remove_prefix(at + from.size());
  }
  return result += text;
}

std::string without_punctuation(std::string_view text) {
  std::string result;
  std::copy_if(text.begin(), text.end(), std::back_inserter(result), [](char c) { return !is_ascii_punctuation(c); });
  return result;
}

std::string replace_articles(std::string_view text, std::string_view replacement) {
  std::string result;
  while (!text.empty()) {
    const CodePoint c = first_code_point(text);
    if (is_word_character(c.value)) {
      std::size_t end = 0;
      while (end < text.size() && is_word_character(first_code_point(text.substr(end)).value)) {
        end += first_code_point(text.substr(end)).size;
      }
      const std::string_view word = text.substr(0, end);
      result += word == "a" || word == "an" || word == "the" ? replacement : word;
      text.remove_prefix(end);
      continue;
    }
    result += text.substr(0, c.size);
    text.remove_prefix(c.size);
  }
  return result;
}

bool contains_ignoring_case(std::string_view text, std::string_view needle) {
  const std::vector<char32_t> whole = code_points(text), part = code_points(needle);
  return std::search(whole.begin(), whole.end(), part.begin(), part.end(), same_letter) != whole.end() ||
         part.empty();
}

std::optional<std::size_t> find_last_ignoring_case(std::string_view text, std::string_view needle) {
  const std::vector<char32_t> whole = code_points(text), part = code_points(needle);
  const auto found = std::find_end(whole.begin(), whole.end(), part.begin(), part.end(), same_letter);
  if (found == whole.end()) return std::nullopt;
  std::size_t at = 0;
  for (auto it = whole.begin(); it != found; ++it) at += first_code_point(text.substr(at)).size;
  return at;
}

bool ends_with_ignoring_case(std::string_view text, std::string_view suffix) {
  return lower_case(text).ends_with(lower_case(suffix));
}

bool is_word_character(char32_t c) {
  if (c == U'_') return true;
  const int8_t kind = u_charType(icu(c));
  return u_isalpha(icu(c)) || kind == U_DECIMAL_DIGIT_NUMBER || kind == U_LETTER_NUMBER || kind == U_OTHER_NUMBER;
}

std::optional<double> parse_float(std::string_view text) {
  // Digits of any script count as digits; single underscores may stand between digits.
  std::string plain;
  const std::vector<char32_t> all = code_points(strip(text));
  const auto digit = [&](std::size_t i) { return i < all.size() ? u_charDigitValue(icu(all[i])) : -1; };
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (all[i] == U'_') {
      if (i == 0 || digit(i - 1) < 0 || digit(i + 1) < 0) return std::nullopt;
    } else if (digit(i) >= 0) {
      plain += static_cast<char>('0' + digit(i));
    } else if (all[i] < 0x80) {
      plain += ascii_lower(static_cast<char>(all[i]));
    } else {
      return std::nullopt;
    }
  }
  std::string_view rest = plain;
  const bool negative = rest.starts_with('-');
  if (negative || rest.starts_with('+')) rest.remove_prefix(1);
  double value = 0;
  if (rest == "inf" || rest == "infinity") {
    value = INFINITY;
  } else if (rest == "nan") {
    value = NAN;
  } else {
    if (rest.empty() || !(rest.front() == '.' || (rest.front() >= '0' && rest.front() <= '9'))) return std::nullopt;
    const auto parsed = std::from_chars(rest.data(), rest.data() + rest.size(), value);
    if (parsed.ptr != rest.data() + rest.size()) return std::nullopt;
    if (parsed.ec == std::errc::result_out_of_range) {
      value = std::strtod(std::string(rest).c_str(), nullptr);
    } else if (parsed.ec != std::errc()) {
      return std::nullopt;
    }
  }
  return negative ? -value : value;
}

std::string float_repr(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  char buffer[64];
  // The shortest digits that read back as the value.
  const auto end = std::to_chars(buffer, buffer + sizeof buffer, value, std::chars_format::scientific).ptr;
  std::string text(buffer, end);
  std::string sign;
  if (text.starts_with('-')) {
    sign = "-";
    text.erase(0, 1);
  }
  const auto e = text.find('e');
  const int exponent = std::stoi(text.substr(e + 1));
  std::string digits = text.substr(0, 1) + (e > 2 ? text.substr(2, e - 2) : "");
  if (exponent < -4 || exponent >= 16) {
    char power[16];
    std::snprintf(power, sizeof power, "e%c%02d", exponent < 0 ? '-' : '+', std::abs(exponent));
    return sign + digits.substr(0, 1) + (digits.size() > 1 ? "." + digits.substr(1) : "") + power;
  }
  if (exponent < 0) return sign + "0." + std::string(static_cast<std::size_t>(-exponent - 1), '0') + digits;
  const auto whole = static_cast<std::size_t>(exponent) + 1;
  if (digits.size() <= whole) return sign + digits + std::string(whole - digits.size(), '0') + ".0";
  return sign + digits.substr(0, whole) + "." + digits.substr(whole);
}

std::string string_repr(std::string_view text) {
  const bool single = text.find('\'') != std::string_view::npos && text.find('"') == std::string_view::npos;
  const char quote = single ? '"' : '\'';
  std::string result(1, quote);
  for (const char32_t c : code_points(text)) {
    if (c == static_cast<char32_t>(quote) || c == U'\\') {
      result += '\\';
      result += static_cast<char>(c);
    } else if (c == U'\n') {
      result += "\\n";
    } else if (c == U'\r') {
      result += "\\r";
    } else if (c == U'\t') {
      result += "\\t";
    } else if (c == U' ' || (c > 0x20 && c < 0x7F) || (c >= 0x7F && u_isgraph(icu(c)))) {
      append_utf8(result, c);
    } else {
      char escape[16];
      std::snprintf(escape, sizeof escape,
                    c < 0x100     ? "\\x%02x"
                    : c < 0x10000 ? "\\u%04x"
                                  : "\\U%08x",
                    static_cast<unsigned>(c));
      result += escape;
    }
  }
  return result + quote;
}

std::string list_repr(const std::vector<std::string>& texts) {
  std::string result = "[";
  for (std::size_t i = 0; i < texts.size(); ++i) result += (i ? ", " : "") + string_repr(texts[i]);
  return result + "]";
}

}  // namespace satformer
