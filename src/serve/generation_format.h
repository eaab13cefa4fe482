// What the answers to generation requests look like.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "infer/engine.h"
#include "serve/fields.h"
#include "serve/token_text.h"

namespace satformer::serve {

// Log-probabilities of /v1/completions, token by token: parallel lists "tokens", "token_logprobs", "top_logprobs" and
// "text_offset" (characters before the token in prompt and answer).
class LogprobLists {
 public:
  LogprobLists(const TokenText& text, std::int64_t offset)
      : text_(text), decoder_(text.tokenizer()), offset_(offset) {}
  // A prompt's ids, of which only those told of have values; `results` are of all but the first.
  void add_prompt(const std::vector<std::int64_t>& prompt, const std::vector<TokenResult>& results, Json& lists);
  void add(const TokenResult& token, Json& lists);
  void skip(const std::vector<std::int64_t>& prompt);  // not told of: only how the next piece joins them
  static Json empty();

 private:
  void add_name(std::int64_t id, Json& lists);
  const TokenText& text_;
  StreamDecoder decoder_;
  std::int64_t offset_;
};

Json chat_logprob(const TokenResult& token, const TokenText& text);  // one entry of "content"

// {"entries": [{"layer", "source"}], "heads", "first_token", "values": [token][entry][head]}
Json gates_json(const Engine& engine, std::int64_t first_token, const std::vector<float>& gates);

const char* finish_name(FinishReason reason);  // "stop", "length"

}  // namespace satformer::serve
