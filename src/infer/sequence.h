// One request inside the engine: what it asks for, its tokens so far, and what is to be told of it next.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "infer/engine.h"
#include "infer/prompt_lookup.h"
#include "infer/row_gates.h"
#include "infer/stop_text.h"

namespace satformer {

struct Sequence {
  EngineTask task;
  EngineSink sink;
  std::shared_ptr<EngineTicket> ticket;
  std::vector<std::int64_t> ids;  // prompt and new tokens
  std::optional<GateEditor> editor;
  std::optional<StopText> text;
  EngineEvent event;                   // what is to be told next
  std::optional<PromptLookup> lookup;  // empty: its text is not speculated on
  std::vector<std::int64_t> proposal;  // of this step, computed behind the last id

  std::int64_t prompt_size() const { return std::ssize(task.prompt); }
  std::int64_t new_tokens() const { return std::ssize(ids) - prompt_size(); }
  bool plain() const { return !task.prompt_logprobs && !task.gates; }
  // Samples the next token of a row of logits, which penalties change, into ids and event: its text, and whether it
  // is the last. `logprobs`: of the row, or none if none are asked for.
  void take_next(std::span<float> logits, std::span<const float> logprobs, const Tokenizer& tokenizer);
  void tell() {
    sink(event);
    event = EngineEvent();
  }
  void end(FinishReason reason, ExitCode code = ExitCode::ok, const std::string& error = {}) {
    event.finish = reason;
    event.code = code;
    event.error = error;
    tell();
  }
};

// The log-probability of `id` and the `top` likeliest of a row of log-probabilities, the lowest id first among
// equals.
TokenResult token_result(std::span<const float> logprobs, std::int64_t id, std::int64_t top);

}  // namespace satformer
