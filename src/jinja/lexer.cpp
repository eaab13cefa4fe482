#include "jinja/lexer.h"

#include <algorithm>
#include <array>
#include <cctype>

#include "base/error.h"
#include "base/unicode.h"

namespace satformer::jinja {
namespace {

bool blank(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r' || c == '\f' || c == '\v'; }

bool starts_name(char c) { return std::isalpha(static_cast<unsigned char>(c)) || c == '_' || (c & 0x80); }
bool in_name(char c) { return starts_name(c) || std::isdigit(static_cast<unsigned char>(c)); }

// One kind of line end, and without the last one.
std::string with_plain_lines(std::string_view source) {
  std::string text;
  text.reserve(source.size());
  for (std::size_t i = 0; i < source.size(); ++i) {
    if (source[i] == '\r') {
      text += '\n';
      if (i + 1 < source.size() && source[i + 1] == '\n') ++i;
    } else {
      text += source[i];
    }
  }
  if (text.ends_with('\n')) text.pop_back();
  return text;
}

class Lexer {
 public:
  explicit Lexer(std::string_view source) : text_(with_plain_lines(source)), rest_(text_) {}

  std::vector<Token> run() {
    while (!rest_.empty()) read_text();
    add(Token::end, "");
    return std::move(tokens_);
  }

 private:
  template <class... What>
  [[noreturn]] void refuse(const What&... what) const {
    fail(ExitCode::data, "line ", line_, ": ", what...);
  }
  void add(Token::Kind kind, std::string text) { tokens_.push_back({kind, std::move(text), line_}); }
  std::string_view take(std::size_t size) {
    const std::string_view taken = rest_.substr(0, size);
    line_ += static_cast<int>(std::count(taken.begin(), taken.end(), '\n'));
    rest_.remove_prefix(taken.size());
    if (!taken.empty()) line_started_ = taken.back() == '\n';
    return taken;
  }
  void skip_blank() {
    std::size_t size = 0;
    while (size < rest_.size() && blank(rest_[size])) ++size;
    take(size);
  }

  // Up to the next tag, and the tag.
  void read_text() {
    std::size_t at = 0;
    while ((at = rest_.find('{', at)) != std::string_view::npos) {
      if (at + 1 < rest_.size() && (rest_[at + 1] == '{' || rest_[at + 1] == '%' || rest_[at + 1] == '#')) break;
      ++at;
    }
    std::string_view text = rest_.substr(0, at);
    if (at == std::string_view::npos) {
      add_text(text);
      take(text.size());
      return;
    }
    const char kind = rest_[at + 1];
    const char sign = at + 2 < rest_.size() ? rest_[at + 2] : ' ';
    if (sign == '-') {
      while (!text.empty() && blank(text.back())) text.remove_suffix(1);
    } else if (sign != '+' && kind != '{') {
      const std::size_t line_begin = text.rfind('\n') + 1;
      const std::string_view before = text.substr(line_begin);
      if ((line_begin > 0 || line_started_) && std::all_of(before.begin(), before.end(), blank)) {
        text = text.substr(0, line_begin);
      }
    }
    add_text(text);
    take(at + 2);
    if (sign == '-' || sign == '+') take(1);
    if (kind == '#') return comment();
    if (kind == '%' && raw_block()) return;
    add(kind == '{' ? Token::output_begin : Token::block_begin, "");
    read_code(kind == '{' ? '}' : '%');
  }

  void add_text(std::string_view text) {
    if (!text.empty()) add(Token::data, std::string(text));
  }

  // Behind a tag's end.
  void after_tag(bool strip, bool keep) {
    line_started_ = false;
    if (strip) {
      skip_blank();
    } else if (!keep && rest_.starts_with('\n')) {
      take(1);
    }
  }

  void comment() {
    const std::size_t close = rest_.find("#}");
    if (close == std::string_view::npos) refuse("this comment has no end (#})");
    const char sign = close > 0 ? rest_[close - 1] : ' ';
    take(close + 2);
    after_tag(sign == '-', sign == '+');
  }

  // "raw %} ... {% endraw %}" as one text.
  bool raw_block() {
    std::size_t at = 0;
    const auto skip = [&](std::string_view in) {
      while (at < in.size() && blank(in[at])) ++at;
    };
    skip(rest_);
    if (!rest_.substr(at).starts_with("raw")) return false;
    at += 3;
    if (at < rest_.size() && in_name(rest_[at])) return false;
    skip(rest_);
    const char sign = at < rest_.size() ? rest_[at] : ' ';
    if (sign == '-' || sign == '+') ++at;
    if (!rest_.substr(at).starts_with("%}")) return false;
    take(at + 2);
    after_tag(sign == '-', true);
    for (std::size_t open = rest_.find("{%"); open != std::string_view::npos; open = rest_.find("{%", open + 2)) {
      at = open + 2;
      const char before = at < rest_.size() ? rest_[at] : ' ';
      if (before == '-' || before == '+') ++at;
      skip(rest_);
      if (!rest_.substr(at).starts_with("endraw")) continue;
      at += 6;
      skip(rest_);
      const char after = at < rest_.size() ? rest_[at] : ' ';
      if (after == '-' || after == '+') ++at;
      if (!rest_.substr(at).starts_with("%}")) continue;
      std::string_view text = rest_.substr(0, open);
      if (before == '-') {
        while (!text.empty() && blank(text.back())) text.remove_suffix(1);
      } else if (before != '+') {
        const std::size_t line_begin = text.rfind('\n') + 1;
        if ((line_begin > 0 || line_started_) &&
            std::all_of(text.begin() + static_cast<std::ptrdiff_t>(line_begin), text.end(), blank)) {
          text = text.substr(0, line_begin);
        }
      }
      add_text(text);
      take(at + 2);
      after_tag(after == '-', after == '+');
      return true;
    }
    refuse("{% raw %} has no {% endraw %}");
  }

  void read_code(char closing) {
    const int opened = line_;
    std::string brackets;
    while (true) {
      skip_blank();
      if (rest_.empty()) {
        line_ = opened;
        refuse("this tag has no end (", closing, "})");
      }
      const char c = rest_[0];
      if (brackets.empty() && tag_end(closing)) return;
      if (starts_name(c)) {
        std::size_t size = 1;
        while (size < rest_.size() && in_name(rest_[size])) ++size;
        add(Token::name, std::string(rest_.substr(0, size)));
        take(size);
      } else if (std::isdigit(static_cast<unsigned char>(c))) {
        read_number();
      } else if (c == '"' || c == '\'') {
        read_string(c);
      } else {
        read_sign(brackets);
      }
    }
  }

  bool tag_end(char closing) {
    const bool marked = rest_[0] == '-' || (rest_[0] == '+' && closing == '%');
    const std::string_view mark = rest_.substr(marked ? 1 : 0, 2);
    if (mark.size() < 2 || mark[0] != closing || mark[1] != '}') return false;
    const char sign = marked ? rest_[0] : ' ';
    add(closing == '}' ? Token::output_end : Token::block_end, "");
    take(marked ? 3 : 2);
    after_tag(sign == '-', sign == '+' || closing == '}');
    return true;
  }

  void read_number() {
    std::size_t size = 0;
    const auto digits = [&] {
      while (size < rest_.size() && (std::isdigit(static_cast<unsigned char>(rest_[size])) || rest_[size] == '_')) {
        ++size;
      }
    };
    const auto digit_at = [&](std::size_t i) {
      return i < rest_.size() && std::isdigit(static_cast<unsigned char>(rest_[i]));
    };
    digits();
    bool real = false;
    const bool of_attribute = !tokens_.empty() && tokens_.back().kind == Token::sign && tokens_.back().text == ".";
    if (!of_attribute && size < rest_.size() && rest_[size] == '.' && digit_at(size + 1)) {
      real = true;
      ++size;
      digits();
    }
    if (size < rest_.size() && (rest_[size] == 'e' || rest_[size] == 'E')) {
      const std::size_t sign = size + 1 < rest_.size() && (rest_[size + 1] == '+' || rest_[size + 1] == '-') ? 1 : 0;
      if (digit_at(size + 1 + sign)) {
        real = true;
        size += 1 + sign;
        digits();
      }
    }
    std::string text(rest_.substr(0, size));
    std::erase(text, '_');
    add(real ? Token::number : Token::integer, std::move(text));
    take(size);
  }

  void read_string(char quote) {
    std::string value;
    std::size_t at = 1;
    for (; at < rest_.size() && rest_[at] != quote; ++at) {
      if (rest_[at] != '\\' || at + 1 >= rest_.size()) {
        value += rest_[at];
        continue;
      }
      at = escape(at + 1, value);
    }
    if (at >= rest_.size()) refuse("this string has no end (", quote, ")");
    add(Token::string, std::move(value));
    take(at + 1);
  }

  // Of the letter behind a backslash; the place of the last one that belongs to it.
  std::size_t escape(std::size_t at, std::string& value) const {
    static constexpr std::string_view letters = "ntr\\'\"abfv\n", meanings = "\n\t\r\\'\"\a\b\f\v";
    const char c = rest_[at];
    if (const std::size_t known = letters.find(c); known != std::string_view::npos) {
      if (c != '\n') value += meanings[known];
      return at;
    }
    const std::size_t digits = c == 'x' ? 2 : c == 'u' ? 4 : c == 'U' ? 8 : 0;
    char32_t code = 0;
    if (digits > 0) {
      for (std::size_t i = 1; i <= digits; ++i) {
        if (at + i >= rest_.size() || !std::isxdigit(static_cast<unsigned char>(rest_[at + i]))) {
          refuse("'\\", c, "' in a string asks for ", digits, " hexadecimal digits");
        }
        const char digit = static_cast<char>(std::tolower(rest_[at + i]));
        code = code * 16 + static_cast<char32_t>(digit <= '9' ? digit - '0' : digit - 'a' + 10);
      }
      if (code > 0x10FFFF || (code >= 0xD800 && code < 0xE000)) refuse("'\\", c, "' in a string is no character");
      append_utf8(value, code);
      return at + digits;
    }
    if (c >= '0' && c <= '7') {
      std::size_t size = 0;
      while (size < 3 && at + size < rest_.size() && rest_[at + size] >= '0' && rest_[at + size] <= '7') {
        code = code * 8 + static_cast<char32_t>(rest_[at + size++] - '0');
      }
      append_utf8(value, code);
      return at + size - 1;
    }
    value += '\\';
    value += c;
    return at;
  }

  void read_sign(std::string& brackets) {
    static constexpr std::array<std::string_view, 26> signs = {"//", "**", "==", "!=", ">=", "<=", "+", "-", "/",
                                                               "*",  "%",  "~",  "[",  "]",  "(",  ")", "{", "}",
                                                               ">",  "<",  "=",  ".",  ":",  "|",  ",", ";"};
    for (const std::string_view sign : signs) {
      if (!rest_.starts_with(sign)) continue;
      if (sign == "(" || sign == "[" || sign == "{") {
        brackets += sign == "(" ? ')' : sign == "[" ? ']' : '}';
      } else if (sign == ")" || sign == "]" || sign == "}") {
        if (brackets.empty() || brackets.back() != sign[0]) refuse("'", sign, "' closes nothing");
        brackets.pop_back();
      }
      add(Token::sign, std::string(sign));
      take(sign.size());
      return;
    }
    refuse("'", one_line(rest_.substr(0, first_code_point(rest_).size)), "' is not expected here");
  }

  const std::string text_;
  std::string_view rest_;
  int line_ = 1;
  bool line_started_ = true;  // a line begins here
  std::vector<Token> tokens_;
};

}  // namespace

std::vector<Token> tokenize(std::string_view source) { return Lexer(source).run(); }

}  // namespace satformer::jinja
