#include <sentencepiece_trainer.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <unordered_map>

#include "base/error.h"
#include "io/tokenizer.h"

namespace satformer {
namespace {

constexpr std::size_t max_sentence_bytes = 4096;

// The lines of the texts; longer ones are cut at a space where there is one, else between characters.
class Lines : public sentencepiece::SentenceIterator {
 public:
  explicit Lines(std::span<const std::string> texts) : texts_(texts) { Next(); }
  bool done() const override { return done_; }
  const std::string& value() const override { return line_; }
  sentencepiece::util::Status status() const override { return {}; }
  void Next() override {
    while (rest_.empty()) {
      if (text_ == texts_.size()) {
        done_ = true;
        return;
      }
      rest_ = texts_[text_++];
    }
    std::size_t length = std::min(rest_.find('\n'), rest_.size());
    if (length > max_sentence_bytes) {
      length = max_sentence_bytes;
      const std::size_t space = rest_.rfind(' ', length);
      if (space != std::string_view::npos && space > 0) {
        length = space;
      } else {
        while (length > max_sentence_bytes - 4 && (rest_[length] & 0xC0) == 0x80) --length;
      }
      line_ = rest_.substr(0, length);
      rest_.remove_prefix(length);
      return;
    }
    line_ = rest_.substr(0, length);
    rest_.remove_prefix(std::min(length + 1, rest_.size()));
  }

 private:
  std::span<const std::string> texts_;
  std::size_t text_ = 0;
  std::string_view rest_;
  std::string line_;
  bool done_ = false;
};

}  // namespace

void check_trained_vocab(std::int64_t vocab_size) {
  constexpr std::int64_t smallest = 3 + 256 + 1;
  if (vocab_size < smallest || vocab_size > (1 << 20)) {
    fail(ExitCode::usage, "a trained tokenizer has ", smallest, " (special tokens, bytes and one piece) to ", 1 << 20,
         " ids, not ", vocab_size);
  }
}

std::string train_sentencepiece(std::span<const std::string> texts, std::int64_t vocab_size) {
  check_trained_vocab(vocab_size);
  const std::unordered_map<std::string, std::string> settings = {
      {"model_type", "bpe"},
      {"vocab_size", std::to_string(vocab_size)},
      {"hard_vocab_limit", "false"},
      {"byte_fallback", "true"},
      {"character_coverage", "0.9999"},
      {"normalization_rule_name", "identity"},
      {"remove_extra_whitespaces", "false"},
      {"add_dummy_prefix", "false"},
      {"allow_whitespace_only_pieces", "true"},
      {"split_digits", "true"},
      {"max_sentence_length", std::to_string(max_sentence_bytes)},
      {"num_threads", "2"},
      {"unk_id", "0"},
      {"bos_id", "1"},
      {"eos_id", "2"},
      {"pad_id", "-1"},
      {"minloglevel", "3"},
  };
  Lines lines(texts);
  std::string model;
  const auto status = sentencepiece::SentencePieceTrainer::Train(settings, &lines, &model);
  if (!status.ok() || model.empty()) {
    const std::string message =
        sentencepiece_message(status.ok() ? "the text has no usable line" : status.error_message());
    // The library's advice names an option that it alone has.
    long long asked = 0, needed = 0;
    if (std::sscanf(message.c_str(), "Vocabulary size is smaller than required_chars. %lld vs %lld", &asked,
                    &needed) == 2) {
      fail(ExitCode::data, "a tokenizer of ", vocab_size,
           " ids cannot hold the characters of the text: ask for at least ", needed, " ids");
    }
    fail(ExitCode::data, "training a tokenizer of ", vocab_size, " ids failed: ", message);
  }
  const auto tokenizer = make_sentencepiece_tokenizer(model, "the trained tokenizer");
  if (tokenizer->vocab_size() != vocab_size) {
    fail(ExitCode::data, "the text is too small for a tokenizer of ", vocab_size, " ids: it yields ",
         tokenizer->vocab_size(), "; ask for at most that many or give more text");
  }
  return model;
}

}  // namespace satformer
