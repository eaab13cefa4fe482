// Our tokenizers in the form of others' programs.
#pragma once

#include <string>

#include "io/tokenizer.h"

namespace satformer {

struct TokenizerJson {
  std::string text;     // of a tokenizer.json that gives the same ids; empty if there is none
  std::string why_not;  // then, why
};
// Byte tokenizers become byte-level BPE without merges; SentencePiece BPE models without a normalisation of their own
// become BPE with a metaspace; what came as tokenizer.json stays as it is.
TokenizerJson tokenizer_json(const Tokenizer& tokenizer);

// The tokenizer.model or tokenizer.json that a tokenizer saves itself as.
std::string saved_tokenizer(const Tokenizer& tokenizer);

// tokenizer_config.json for transformers.
std::string tokenizer_config_json(const Tokenizer& tokenizer, std::int64_t model_max_length);

}  // namespace satformer
