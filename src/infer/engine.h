// Generation for many callers at once: sequences join and leave a running batch. One thread owns the model; callers
// submit tasks from any thread and get events on the engine's thread. No header of libtorch is needed to use it.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/error.h"
#include "infer/sampler.h"

namespace satformer {

class Model;
class Tokenizer;

struct EngineOptions {
  std::int64_t max_rows = 16;       // sequences that run at once
  std::int64_t max_waiting = 64;    // sequences that may wait
  std::int64_t chunk_tokens = 256;  // of prompts, computed between two steps of the running sequences
  std::int64_t max_context = 0;     // tokens of a prompt and its continuation; 0: the model's context
  bool reuse_prefixes = true;       // a prompt that begins like one still in the cache is not computed twice
  int threads = 0;                  // as set_num_threads()
  // Tokens proposed at most from a sequence's own text in one step (infer/prompt_lookup.h); 0: none. Only for
  // sequences at temperature 0 that ask for no gates; their tokens are the ones that they get without.
  std::int64_t speculate = 0;
};

struct EngineTask {
  std::vector<std::int64_t> prompt;  // at least one id
  std::int64_t max_new_tokens = 16;  // 0: only the prompt is computed
  SamplingOptions sampling;
  std::vector<std::string> stop;            // the text ends before the first of them
  std::vector<std::int64_t> stop_ids = {};  // end it as EOS does
  bool ignore_eos = false;
  std::int64_t top_logprobs = -1;  // likeliest tokens told with each new one; -1: no log-probabilities
  bool prompt_logprobs = false;    // the same of the prompt's tokens
  bool gates = false;
  std::string intervention;  // edits of gates as in probe/intervention.h: zero, scale, clamp, swap
};

struct TokenLogprob {
  std::int64_t id = 0;
  float logprob = 0;  // natural, of the model's own distribution: before penalties, temperature and cuts
};
struct TokenResult {
  std::int64_t id = 0;
  float logprob = 0;
  std::vector<TokenLogprob> top;  // descending; logprob of `id` is bit-equal if it is among them
};

enum class FinishReason { none, stop, length, cancelled, error };

struct EngineEvent {
  std::vector<TokenResult> prompt;  // once, before the first token: of the prompt's tokens after the first one
  std::vector<TokenResult> tokens;  // new ones; an EOS that ended the text is among them
  std::string text;                 // text that is certain now: whole characters, no part of a stop string
  // Gates of the tokens computed since the last event, [tokens][Engine::gate_layout() entries][KV heads]. A token's
  // gates are known when it is computed, so those of the last new token never come.
  std::vector<float> gates;
  FinishReason finish = FinishReason::none;
  ExitCode code = ExitCode::ok;  // of error
  std::string error;
};

// Called on the engine's thread; must be quick and must not throw.
using EngineSink = std::function<void(const EngineEvent&)>;

// Asks for the end of a sequence; its last event has FinishReason::cancelled.
class EngineTicket {
 public:
  void cancel() { cancelled_.store(true, std::memory_order_relaxed); }
  bool cancelled() const { return cancelled_.load(std::memory_order_relaxed); }

 private:
  std::atomic<bool> cancelled_{false};
};

struct EngineCounts {
  std::int64_t running = 0, waiting = 0;                                          // sequences
  std::int64_t prompt_tokens = 0, reused_tokens = 0, new_tokens = 0, passes = 0;  // since the start
  std::int64_t proposed_tokens = 0, accepted_tokens = 0;                          // of speculation
  std::int64_t finished = 0, cancelled = 0, failed = 0;
  double busy_seconds = 0;
  std::int64_t cache_bytes = 0;
};

struct GateEntry {
  std::int64_t layer = 0, source = 0;
};

class Engine {
 public:
  // Both outlive the engine; nobody else uses the model meanwhile.
  Engine(Model& model, const Tokenizer& tokenizer, const EngineOptions& options);
  ~Engine();  // sequences that are left end as cancelled
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  // Error(data, config, usage) naming what is wrong with the task.
  void check(const EngineTask& task) const;
  // All of them, or none if too many wait already (then the result is empty). A group of tasks larger than
  // max_waiting is accepted when nothing waits.
  std::vector<std::shared_ptr<EngineTicket>> submit(std::vector<EngineTask> tasks, std::vector<EngineSink> sinks);
  EngineCounts counts() const;
  const std::vector<GateEntry>& gate_layout() const;  // empty: the model has no gates
  std::int64_t gate_heads() const;
  std::int64_t max_context() const;
  std::int64_t vocab_size() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace satformer
