// Our tokenizers in the metadata of a GGUF file.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "io/gguf.h"
#include "io/tokenizer.h"

namespace satformer {

struct GgufTokenizer {
  GgufMetadata metadata;           // tokenizer.ggml.*
  std::vector<std::string> notes;  // where llama.cpp can give other ids, a sentence each
  bool nfc_alone = false;          // that is so of texts that are not NFC,
  bool no_blanks = false;          // and of texts of spaces alone
};
// As "llama" (SentencePiece BPE), "t5" (SentencePiece unigram) or "gpt2" (BPE over bytes, byte tokenizers), with
// pieces that stand for nothing up to `vocab_size`. Error(data) naming what llama.cpp has not.
GgufTokenizer gguf_tokenizer(const Tokenizer& tokenizer, std::int64_t vocab_size);

}  // namespace satformer
