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
  // Ids of `text` without special tokens. Thread-safe.
  virtual std::vector<std::int32_t> encode(std::string_view text) const = 0;
  // Bytes of the ids; special tokens give nothing. Ids outside the vocabulary throw Error(data).
  virtual std::string decode(std::span<const std::int32_t> ids) const = 0;
  virtual std::int64_t vocab_size() const = 0;
  virtual std::int32_t eos_id() const = 0;
  virtual std::int32_t bos_id() const = 0;               // -1 if none
  virtual std::string piece(std::int32_t id) const = 0;  // readable form of one token
  virtual std::string name() const = 0;                  // "sentencepiece" or "byte"
  virtual std::string sha256() const = 0;                // of the model file; of the definition for "byte"
  // Copies the model into `directory` (tokenizer.model; nothing for "byte") so that load_tokenizer(directory) works.
  virtual void save(const std::string& directory) const = 0;
};

// "byte", a SentencePiece .model file, or a folder that holds tokenizer.model or tokenizer.json of kind byte.
std::unique_ptr<Tokenizer> load_tokenizer(const std::string& spec);
// Ids 0..2 are unk/bos/eos as in SentencePiece models, byte b is id 3 + b; vocabulary 259.
std::unique_ptr<Tokenizer> make_byte_tokenizer();

// Streams decoded text of one sequence as it grows: returns the new complete UTF-8 after each id, keeps back a
// partial character.
class StreamDecoder {
 public:
  explicit StreamDecoder(const Tokenizer& tokenizer) : tokenizer_(tokenizer) {}
  std::string push(std::int32_t id);
  std::string finish();  // what was kept back

 private:
  const Tokenizer& tokenizer_;
  std::vector<std::int32_t> ids_;
  std::string emitted_;
};

}  // namespace satformer
