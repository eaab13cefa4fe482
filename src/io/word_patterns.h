// Pre-tokenizers: the patterns that cut a text into the words which byte-pair encoding does not cross.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

namespace satformer {

// Cuts UTF-8 text at the matches of a regular expression. The published patterns of GPT-2, Llama-3 and Qwen run as
// hand-written scanners with the same results; others through PCRE2. Thread-safe.
class WordPattern {
 public:
  virtual ~WordPattern() = default;
  // Calls found(begin, end) for each match, left to right, without overlap. Matches are not empty.
  virtual void each_match(std::string_view text,
                          const std::function<void(std::size_t, std::size_t)>& found) const = 0;
  // Length of the first word of a non-empty text if the pattern matches every text from end to end; 0: not known.
  virtual std::size_t first_word(std::string_view text) const {
    (void)text;
    return 0;
  }
  virtual bool covers() const { return false; }  // whether first_word() is known
};

extern const std::string_view gpt2_pattern, llama3_pattern, qwen2_pattern;
// Error(data) naming `origin` for an expression that PCRE2 does not accept.
std::unique_ptr<WordPattern> make_word_pattern(const std::string& regex, const std::string& origin);
// The same through PCRE2 whatever the pattern is: what the scanners must agree with.
std::unique_ptr<WordPattern> make_pcre_pattern(const std::string& regex, const std::string& origin);
// A text that must match as it is.
std::unique_ptr<WordPattern> make_literal_pattern(std::string literal);

}  // namespace satformer
