#define PCRE2_CODE_UNIT_WIDTH 8
#include "io/word_patterns.h"

#include <pcre2.h>
#include <unicode/uchar.h>

#include <array>
#include <vector>

#include "base/error.h"
#include "base/unicode.h"

namespace satformer {

const std::string_view gpt2_pattern = R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";
const std::string_view llama3_pattern =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
const std::string_view qwen2_pattern =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

namespace {

enum WordCharacter : unsigned char {
  other,
  letter,
  number,
  space,
  newline
};  // newline: \r and \n, which are space too

WordCharacter kind_of(UChar32 c) {
  if (c == '\n' || c == '\r') return newline;
  if (u_hasBinaryProperty(c, UCHAR_WHITE_SPACE)) return space;
  const std::uint32_t mask = U_GET_GC_MASK(c);
  return mask & U_GC_L_MASK ? letter : mask & U_GC_N_MASK ? number : other;
}

// Of every code point.
class KindTable {
 public:
  KindTable() : kinds_(0x110000) {
    for (UChar32 c = 0; c < 0x110000; ++c) kinds_[static_cast<std::size_t>(c)] = kind_of(c);
    for (std::size_t c = 0; c < 128; ++c) ascii_[c] = kinds_[c];
  }
  struct Character {
    WordCharacter kind;
    std::size_t size;
  };
  Character at(std::string_view text, std::size_t position) const {
    const auto lead = static_cast<unsigned char>(text[position]);
    if (lead < 0x80) return {ascii_[lead], 1};
    const CodePoint c = first_code_point(text.substr(position));
    return {kinds_[c.value], c.size};
  }

 private:
  std::vector<WordCharacter> kinds_;
  std::array<WordCharacter, 128> ascii_{};
};

std::shared_ptr<const KindTable> kind_table() {
  static const std::shared_ptr<const KindTable> table = std::make_shared<const KindTable>();
  return table;
}

// What the three patterns differ in. All try, at each place: a contraction, letters, numbers, other signs, line ends,
// white space.
struct WordRules {
  bool any_case = false;             // contractions
  bool sign_before_letters = false;  // letters may follow any one sign or space, not just a space
  bool space_before_numbers = false;
  std::size_t digits = 0;  // of one word; 0: any number
  bool line_ends = false;  // other signs take line ends along, and white space ends with its last line end
};

class WordScanner : public WordPattern {
 public:
  explicit WordScanner(const WordRules& rules) : rules_(rules), kinds_(kind_table()) {}

  bool covers() const override { return true; }
  void each_match(std::string_view text, const std::function<void(std::size_t, std::size_t)>& found) const override {
    for (std::size_t at = 0; at < text.size();) {
      const std::size_t size = first_word(text.substr(at));
      found(at, at + size);
      at += size;
    }
  }

  std::size_t first_word(std::string_view text) const override {
    if (text[0] == '\'') {
      if (const std::size_t size = contraction(text)) return size;
    }
    const KindTable::Character first = kinds_->at(text, 0);
    const bool has_next = first.size < text.size();
    // Letters.
    if (first.kind == letter) return run(text, first.size, letter);
    const bool leads = rules_.sign_before_letters ? first.kind == other || first.kind == space : text[0] == ' ';
    if (leads && has_next && kinds_->at(text, first.size).kind == letter) return run(text, first.size, letter);
    // Numbers.
    if (first.kind == number) return rules_.digits ? digits(text) : run(text, first.size, number);
    if (rules_.space_before_numbers && text[0] == ' ' && has_next && kinds_->at(text, 1).kind == number)
      return run(text, 1, number);
    // Other signs.
    if (first.kind == other || (text[0] == ' ' && has_next && kinds_->at(text, 1).kind == other)) {
      const std::size_t end = run(text, first.size, other);
      return rules_.line_ends ? run(text, end, newline) : end;
    }
    return white_space(text);
  }

 private:
  std::size_t run(std::string_view text, std::size_t at, WordCharacter kind) const {
    while (at < text.size()) {
      const KindTable::Character c = kinds_->at(text, at);
      if (c.kind != kind) break;
      at += c.size;
    }
    return at;
  }
  std::size_t digits(std::string_view text) const {
    std::size_t at = 0;
    for (std::size_t i = 0; i < rules_.digits && at < text.size(); ++i) {
      const KindTable::Character c = kinds_->at(text, at);
      if (c.kind != number) break;
      at += c.size;
    }
    return at;
  }
  std::size_t white_space(std::string_view text) const {
    std::size_t at = 0, last_start = 0, after_line_end = 0;
    while (at < text.size()) {
      const KindTable::Character c = kinds_->at(text, at);
      if (c.kind != space && c.kind != newline) break;
      last_start = at;
      at += c.size;
      if (c.kind == newline) after_line_end = at;
    }
    if (rules_.line_ends && after_line_end > 0) return after_line_end;
    // Before something visible the last space is left to it, unless it is all there is.
    return at == text.size() || last_start == 0 ? at : last_start;
  }
  std::size_t contraction(std::string_view text) const {
    const auto fold = [&](std::size_t i) -> char {
      if (i >= text.size()) return 0;
      const char c = text[i];
      return rules_.any_case && c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c;
    };
    const char a = fold(1), b = fold(2);
    if (a == 's' || a == 't' || a == 'm' || a == 'd') return 2;
    if ((a == 'r' && b == 'e') || (a == 'v' && b == 'e') || (a == 'l' && b == 'l')) return 3;
    if (rules_.any_case && text.substr(1).starts_with("\xC5\xBF")) return 3;  // the long s folds to s
    return 0;
  }

  WordRules rules_;
  std::shared_ptr<const KindTable> kinds_;
};

class PcrePattern : public WordPattern {
 public:
  PcrePattern(const std::string& regex, const std::string& origin) : regex_(regex) {
    int error = 0;
    PCRE2_SIZE offset = 0;
    code_.reset(pcre2_compile(reinterpret_cast<PCRE2_SPTR>(regex.data()), regex.size(),
                              PCRE2_UTF | PCRE2_UCP | PCRE2_NEVER_BACKSLASH_C, &error, &offset, nullptr));
    if (!code_) {
      PCRE2_UCHAR message[200];
      pcre2_get_error_message(error, message, sizeof message);
      fail(ExitCode::data, origin, ": the expression '", regex, "' cannot be used, at ", offset, ": ",
           reinterpret_cast<const char*>(message));
    }
    pcre2_jit_compile(code_.get(), PCRE2_JIT_COMPLETE);  // without it the interpreter runs
  }
  void each_match(std::string_view text, const std::function<void(std::size_t, std::size_t)>& found) const override {
    const std::unique_ptr<pcre2_match_data, FreeMatch> match(
        pcre2_match_data_create_from_pattern(code_.get(), nullptr));
    for (std::size_t at = 0; at < text.size();) {
      const int count = pcre2_match(code_.get(), reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(), at,
                                    PCRE2_NOTEMPTY, match.get(), nullptr);
      if (count == PCRE2_ERROR_NOMATCH) return;
      if (count < 0)
        fail(ExitCode::data, "the expression '", regex_, "' gives up on a text (PCRE2 error ", count, ")");
      const PCRE2_SIZE* range = pcre2_get_ovector_pointer(match.get());
      found(range[0], range[1]);
      at = range[1];
    }
  }

 private:
  struct FreeCode {
    void operator()(pcre2_code* code) const { pcre2_code_free(code); }
  };
  struct FreeMatch {
    void operator()(pcre2_match_data* match) const { pcre2_match_data_free(match); }
  };
  std::string regex_;
  std::unique_ptr<pcre2_code, FreeCode> code_;
};

class LiteralPattern : public WordPattern {
 public:
  explicit LiteralPattern(std::string literal) : literal_(std::move(literal)) {}
  void each_match(std::string_view text, const std::function<void(std::size_t, std::size_t)>& found) const override {
    for (std::size_t at = 0; !literal_.empty() && (at = text.find(literal_, at)) != std::string_view::npos;) {
      found(at, at + literal_.size());
      at += literal_.size();
    }
  }

 private:
  std::string literal_;
};

}  // namespace

std::unique_ptr<WordPattern> make_word_pattern(const std::string& regex, const std::string& origin) {
  if (regex == gpt2_pattern) return std::make_unique<WordScanner>(WordRules{.space_before_numbers = true});
  WordRules rules{.any_case = true, .sign_before_letters = true, .digits = 3, .line_ends = true};
  if (regex == llama3_pattern) return std::make_unique<WordScanner>(rules);
  rules.digits = 1;
  if (regex == qwen2_pattern) return std::make_unique<WordScanner>(rules);
  return make_pcre_pattern(regex, origin);
}

std::unique_ptr<WordPattern> make_pcre_pattern(const std::string& regex, const std::string& origin) {
  return std::make_unique<PcrePattern>(regex, origin);
}

std::unique_ptr<WordPattern> make_literal_pattern(std::string literal) {
  return std::make_unique<LiteralPattern>(std::move(literal));
}

}  // namespace satformer
