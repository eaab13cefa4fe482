#include "jinja/text_tools.h"

#include <unicode/locid.h>
#include <unicode/uchar.h>
#include <unicode/unistr.h>

#include <algorithm>
#include <cctype>
#include <utility>

#include "base/unicode.h"

namespace satformer::jinja {
namespace {

bool is_letter(char32_t c) { return u_isalpha(static_cast<UChar32>(c)); }

std::string cased(std::string_view text, bool upper) {
  // Most texts are of ASCII alone, and long.
  if (std::all_of(text.begin(), text.end(), [](char c) { return static_cast<signed char>(c) >= 0; })) {
    std::string made(text);
    for (char& c : made) {
      c = static_cast<char>(upper ? std::toupper(static_cast<unsigned char>(c))
                                  : std::tolower(static_cast<unsigned char>(c)));
    }
    return made;
  }
  auto unicode = icu::UnicodeString::fromUTF8({text.data(), static_cast<int32_t>(text.size())});
  std::string made;
  (upper ? unicode.toUpper(icu::Locale::getRoot()) : unicode.toLower(icu::Locale::getRoot())).toUTF8String(made);
  return made;
}

}  // namespace

std::string upper_text(std::string_view text) { return cased(text, true); }
std::string lower_text(std::string_view text) { return cased(text, false); }

std::string capitalised(std::string_view text) {
  if (text.empty()) return {};
  const std::size_t first = first_code_point(text).size;
  return upper_text(text.substr(0, first)) + lower_text(text.substr(first));
}

std::string title_text(std::string_view text, bool after_any_sign) {
  std::string made;
  bool inside = false;
  while (!text.empty()) {
    const CodePoint c = first_code_point(text);
    const std::string_view letter = text.substr(0, c.size);
    made += inside ? lower_text(letter) : upper_text(letter);
    const bool opens =
        c.value < 0x80 && std::string_view("-([{<").find(static_cast<char>(c.value)) != std::string_view::npos;
    inside = after_any_sign ? is_letter(c.value) : !(is_unicode_space(c.value) || opens);
    text.remove_prefix(c.size);
  }
  return made;
}

std::string replaced(std::string_view text, std::string_view from, std::string_view to, std::int64_t most) {
  std::string made;
  std::int64_t count = 0;
  const auto more = [&] { return most < 0 || count < most; };
  if (from.empty()) {  // between all characters
    while (more()) {
      made += to;
      ++count;
      if (text.empty()) break;
      const std::size_t size = first_code_point(text).size;
      made += text.substr(0, size);
      text.remove_prefix(size);
    }
    return made += text;
  }
  for (std::size_t at = text.find(from); at != std::string_view::npos && more(); at = text.find(from)) {
    made += text.substr(0, at);
    made += to;
    text.remove_prefix(at + from.size());
    ++count;
  }
  return made += text;
}

std::string_view stripped(std::string_view text, const std::optional<std::string>& characters, bool left,
                          bool right) {
  if (!characters) {
    if (left) text = strip_left(text);
    return right ? strip_right(text) : text;
  }
  std::vector<std::string_view> set;
  for (std::string_view rest = *characters; !rest.empty();) {
    const std::size_t size = first_code_point(rest).size;
    set.push_back(rest.substr(0, size));
    rest.remove_prefix(size);
  }
  const auto cut = [&](bool front) {
    for (bool found = true; found;) {
      found = false;
      for (const std::string_view c : set) {
        if (front ? text.starts_with(c) : text.ends_with(c)) {
          front ? text.remove_prefix(c.size()) : text.remove_suffix(c.size());
          found = true;
        }
      }
    }
  };
  if (left) cut(true);
  if (right) cut(false);
  return text;
}

std::vector<std::string> split_text(std::string_view text, const std::optional<std::string>& at, std::int64_t most,
                                    bool from_right) {
  std::vector<std::string> parts;
  if (!at) {
    struct Word {
      std::size_t begin, end;
    };
    std::vector<Word> words;
    bool inside = false;
    for (std::size_t i = 0; i < text.size();) {
      const CodePoint c = first_code_point(text.substr(i));
      const bool space = is_unicode_space(c.value);
      if (!space && !inside) words.push_back({i, i});
      i += c.size;
      if (!space) words.back().end = i;
      inside = !space;
    }
    // What is not cut stays together, at the end or at the beginning.
    const std::size_t count = words.size(), whole = most < 0 || std::cmp_less_equal(count, most)
                                                        ? 0
                                                        : count - static_cast<std::size_t>(most);
    for (std::size_t i = 0; i < count; ++i) {
      std::size_t last = i;
      if (whole > 0 && (from_right ? i == 0 : i + whole == count)) last = i + whole - 1;
      std::size_t end = words[last].end;
      if (whole > 0 && !from_right && last + 1 == count) end = text.size();
      parts.emplace_back(text.substr(words[i].begin, end - words[i].begin));
      i = last;
    }
    if (whole > 0 && from_right) parts[0] = std::string(text.substr(0, words[whole - 1].end));
    return parts;
  }
  while (most < 0 || std::ssize(parts) < most) {
    const std::size_t found = from_right ? text.rfind(*at) : text.find(*at);
    if (found == std::string_view::npos) break;
    parts.emplace_back(from_right ? text.substr(found + at->size()) : text.substr(0, found));
    text = from_right ? text.substr(0, found) : text.substr(found + at->size());
  }
  parts.emplace_back(text);
  if (from_right) std::reverse(parts.begin(), parts.end());
  return parts;
}

std::vector<std::string> split_lines(std::string_view text, bool keep_ends) {
  std::vector<std::string> lines;
  while (!text.empty()) {
    std::size_t size = 0, end = 0;
    while (size < text.size() && end == 0) {
      const CodePoint c = first_code_point(text.substr(size));
      const bool ends = c.value == '\n' || c.value == '\r' || c.value == '\v' || c.value == '\f' ||
                        (c.value >= 0x1C && c.value <= 0x1E) || c.value == 0x85 || c.value == 0x2028 ||
                        c.value == 0x2029;
      if (!ends) {
        size += c.size;
        continue;
      }
      end = c.size + (c.value == '\r' && text.substr(size + 1).starts_with('\n') ? 1 : 0);
    }
    lines.emplace_back(text.substr(0, size + (keep_ends ? end : 0)));
    text.remove_prefix(size + end);
  }
  return lines;
}

}  // namespace satformer::jinja
