// A text as a row of tokens to measure.
#pragma once

#include <string>
#include <string_view>

#include "io/tokenizer.h"
#include "nn/model.h"

namespace satformer {

struct TextRow {
  // int64 [1, T+1]: the id that ends documents (as before a document in shards), the text's tokens, and one more that
  // is no part of the text, so that the last token's gates are computed; its loss means nothing.
  at::Tensor tokens_1T1;
  std::int64_t cut = 0;  // tokens at the end that did not fit into the model's context
};
// Error(usage) naming `what` for a text without a token, Error(data) for ids outside the model's vocabulary.
TextRow text_row(std::string_view text, const Tokenizer& tokenizer, const ModelConfig& config,
                 const std::string& what);

}  // namespace satformer
