// A template's text as tokens, with the white space around its tags treated as chat templates expect it
// (trim_blocks, lstrip_blocks).
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace satformer::jinja {

struct Token {
  enum Kind { data, output_begin, output_end, block_begin, block_end, name, integer, number, string, sign, end };
  Kind kind = end;
  std::string text;  // of strings: without quotes, escapes resolved
  int line = 1;
};

// Error(data) "line N: ...".
std::vector<Token> tokenize(std::string_view source);

}  // namespace satformer::jinja
