// The bodies of /v1/completions and /v1/chat/completions, read and checked.
#pragma once

#include <string>
#include <vector>

#include "infer/engine.h"
#include "serve/chat.h"
#include "serve/fields.h"
#include "serve/token_text.h"

namespace satformer::serve {

struct GenerationRequest {
  bool chat = false;
  std::vector<std::vector<std::int64_t>> prompts;
  EngineTask task;     // of each choice, but for prompt and seed
  std::int64_t n = 1;  // choices of each prompt
  bool echo = false, stream = false, include_usage = false;
  bool trim_start = false;                // a space before the first word is left out
  std::vector<EngineTask> tasks() const;  // prompts one after the other, n of each; seeds count up
};

// ApiError(400) naming the field.
GenerationRequest read_completion(const Json& body, const Engine& engine, const TokenText& text);
GenerationRequest read_chat(const Json& body, const Engine& engine, const TokenText& text,
                            const ChatTemplate& chat_template);

}  // namespace satformer::serve
