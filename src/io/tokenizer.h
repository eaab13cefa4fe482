// Text to token ids and back.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace satformer {

class Tokenizer {
 public:
  virtual ~Tokenizer() = default;
  // Ids of `text` without special tokens. Thread-safe. SentencePiece models read bytes that are not UTF-8 as U+FFFD.
  virtual std::vector<std::int32_t> encode(std::string_view text) const = 0;
  // Ids of `text` in the middle of a document. A document cut before white space that follows a visible character
  // gives the same ids as the whole, unless the vocabulary has pieces across such a border: a model's prefix space
  // stays at the document's beginning alone.
  virtual std::vector<std::int32_t> encode_continued(std::string_view text) const { return encode(text); }
  // Bytes of one id; special tokens give nothing. `at_start`: only special tokens came before, so that the prefix
  // space which some models put before a text is dropped. Ids outside the vocabulary throw Error(data).
  virtual std::string token_bytes(std::int32_t id, bool at_start) const = 0;
  virtual bool is_special(std::int32_t id) const = 0;  // bos, eos and other control tokens
  // Bytes of the ids: token_bytes of each.
  std::string decode(std::span<const std::int32_t> ids) const;
  virtual std::int64_t vocab_size() const = 0;
  virtual std::int32_t eos_id() const = 0;
  virtual std::int32_t bos_id() const = 0;               // -1 if none
  virtual std::string piece(std::int32_t id) const = 0;  // readable form of one token
  virtual std::string name() const = 0;                  // "sentencepiece", "huggingface" or "byte"
  virtual std::string sha256() const = 0;                // of the model file; of tokenizer.json for the other two
  // Copies the model into `directory` (tokenizer.model, or tokenizer.json for the other two) so that
  // load_tokenizer(directory) works; a model of the other kind there is removed.
  virtual void save(const std::string& directory) const = 0;

 protected:
  void check_id(std::int32_t id) const;
};

// "byte", a SentencePiece .model file, a Hugging Face tokenizer.json, or a folder that holds tokenizer.model or
// tokenizer.json (of either kind).
std::unique_ptr<Tokenizer> load_tokenizer(const std::string& spec);
// Ids 0..2 are unk/bos/eos as in SentencePiece models, byte b is id 3 + b; vocabulary 259.
std::unique_ptr<Tokenizer> make_byte_tokenizer();
// From the bytes of a SentencePiece model; `origin` names them in errors.
std::unique_ptr<Tokenizer> make_sentencepiece_tokenizer(std::string model, const std::string& origin);

// From the text of a Hugging Face tokenizer.json with byte-pair encoding. Its added tokens are recognised in texts,
// as Hugging Face's program does. `settings`: the text of the tokenizer_config.json beside it, or empty. BOS and EOS:
// those that the settings name, else `eos_id` (-1: not known), else an added token that is usual for them.
// Error(data) naming what is not supported.
struct HuggingFaceFiles {
  std::string tokenizer, settings;
  std::string origin;
  std::int64_t bos_id = -1, eos_id = -1;
};
std::unique_ptr<Tokenizer> make_huggingface_tokenizer(HuggingFaceFiles files);

// Bytes of a SentencePiece BPE model with byte fallback, ids 0 unk, 1 bos, 2 eos, that keeps every space, tab and
// newline. The same texts give the same bytes. Error(data) if the texts cannot fill `vocab_size` pieces, naming what
// they can.
void check_trained_vocab(std::int64_t vocab_size);  // Error(usage) for a size that cannot be trained
std::string train_sentencepiece(std::span<const std::string> texts, std::int64_t vocab_size);

// What a status of the SentencePiece library says, without the place in its sources.
std::string sentencepiece_message(std::string_view message);

// Streams decoded text of one sequence as it grows: returns the new complete UTF-8 after each id, keeps back a
// partial character. Bytes that cannot be UTF-8 come out as U+FFFD.
class StreamDecoder {
 public:
  explicit StreamDecoder(const Tokenizer& tokenizer) : tokenizer_(tokenizer) {}
  std::string push(std::int32_t id);
  std::string finish();  // what was kept back

 private:
  const Tokenizer& tokenizer_;
  std::string pending_;
  bool at_start_ = true;
};

// Bytes of the UTF-8 character that `text` begins with: 1 to 4; 0 if it is cut off but may go on; -1 if it is
// invalid.
int utf8_length(std::string_view text);

}  // namespace satformer
