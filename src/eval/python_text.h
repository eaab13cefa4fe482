// String operations that task definitions take from Python's str, with the same results: case, words, numbers, repr.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace satformer {

std::string lower_case(std::string_view text);  // str.lower()
std::string upper_case(std::string_view text);  // str.upper()
std::string capitalize(std::string_view text);  // str.capitalize(): the first character in title case, the rest lower
std::string replace_all(std::string_view text, std::string_view from, std::string_view to);
std::string without_punctuation(std::string_view text);  // ASCII punctuation dropped
// Articles as words of their own: each removed with the text of `replacement` in its place. Case as given.
std::string replace_articles(std::string_view text, std::string_view replacement);

// Whether `needle` occurs in `text` where upper and lower case count as one, character by character.
bool contains_ignoring_case(std::string_view text, std::string_view needle);
// The byte at which the last such occurrence begins.
std::optional<std::size_t> find_last_ignoring_case(std::string_view text, std::string_view needle);
bool ends_with_ignoring_case(std::string_view text, std::string_view suffix);

bool is_word_character(char32_t c);                        // \w: letters, digits, other numbers and '_'
std::optional<double> parse_float(std::string_view text);  // float(text); nothing where that would fail
std::string float_repr(double value);                      // repr(value): "1.0", "0.1", "1e-07", "nan"
std::string string_repr(std::string_view text);            // repr(text)
std::string list_repr(const std::vector<std::string>& texts);

}  // namespace satformer
