// White space and characters of UTF-8 text by Unicode's rules, the same as those of Python's str.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace satformer {

// The code point at the start of a non-empty text and its length in bytes. A byte that begins no valid character is
// U+FFFD of length 1.
struct CodePoint {
  char32_t value = 0;
  std::size_t size = 0;
};
CodePoint first_code_point(std::string_view text);
void append_utf8(std::string& text, char32_t value);
std::vector<char32_t> code_points(std::string_view text);
std::int64_t count_characters(std::string_view text);
std::string one_line(std::string_view text);              // control characters as \n, \t or \x1b
std::string replace_invalid_utf8(std::string_view text);  // with U+FFFD

// White space as str.isspace() has it: Unicode's, and the separators U+001C to U+001F.
bool is_unicode_space(char32_t c);
std::string_view strip_left(std::string_view text);
std::string_view strip_right(std::string_view text);
std::string_view strip(std::string_view text);
std::string_view strip_characters(std::string_view text, char c);  // one ASCII character, both ends
std::vector<std::string> split_at_space(std::string_view text);    // at runs of white space, without empty parts
std::int64_t count_words(std::string_view text);                   // runs of white space divide, empty ends count

}  // namespace satformer
