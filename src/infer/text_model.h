// A model asked in text: what lm-eval's three request types mean in tokens (loglikelihood, loglikelihood_rolling,
// generate_until), and generation with stop strings.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "infer/likelihood.h"
#include "infer/sampler.h"
#include "io/tokenizer.h"

namespace satformer {

struct TextModel {
  Model& model;
  const Tokenizer& tokenizer;
  std::int64_t max_length = 0;        // tokens of an input, at most the model's context
  std::int64_t prefix_token = 0;      // stands before a text that has no context
  bool add_bos = false;               // before every encoded text that has a context
  LayerObserver* observer = nullptr;  // of every pass

  std::vector<std::int64_t> encode(std::string_view text, bool with_bos) const;
  // White space at the end of the context belongs to the continuation. Both are tokenised as one text; what comes
  // after the tokens of the context alone is the continuation. Without context, prefix_token is the context (or the
  // continuation's own first token where that is prefix_token).
  LikelihoodRequest pair(std::string_view context, std::string_view continuation) const;
  // Windows that score every token of the text once. The first predicts up to `window` tokens after prefix_token; the
  // later ones up to `stride` new tokens each with as much context as fits into `window`. stride = window: disjoint.
  std::vector<LikelihoodRequest> rolling(std::string_view text, std::int64_t window, std::int64_t stride) const;
  // The last tokens that leave room for `max_new_tokens`. Error(config) with both numbers if there is no room.
  std::vector<std::int64_t> prompt(std::string_view text, std::int64_t max_new_tokens) const;
};

// BOS if the tokenizer has one, else EOS.
std::int64_t default_prefix_token(const Tokenizer& tokenizer);

std::vector<LikelihoodRequest> rolling_windows(std::span<const std::int64_t> tokens, std::int64_t prefix_token,
                                               std::int64_t window, std::int64_t stride);

struct GenerationRequest {
  std::vector<std::int64_t> prompt;
  std::int64_t max_new_tokens = 256;
  std::vector<std::string> stop;  // the text ends before the first of them
  SamplingOptions sampling{.temperature = 0};
};

struct GenerationOptions {
  std::int64_t batch_size = 16;
  std::function<bool(std::size_t request, const std::string& text)> done;  // false stops
};

// Every request once, long prompts first, rows of equal settings together. Texts end at EOS, at a stop string or
// after max_new_tokens; bytes that are not UTF-8 come out as U+FFFD.
void generate_texts(const TextModel& text_model, std::span<const GenerationRequest> requests,
                    const GenerationOptions& options);

}  // namespace satformer
