#include "infer/sequence.h"

#include <algorithm>
#include <numeric>

namespace satformer {
namespace {

// The `count` likeliest of a row of log-probabilities, the lowest id first among equals.
std::vector<TokenLogprob> likeliest(std::span<const float> logprobs, std::int64_t count) {
  const auto n = std::min<std::size_t>(logprobs.size(), static_cast<std::size_t>(count));
  if (n == 0) return {};
  if (n == 1) {
    const auto best = std::max_element(logprobs.begin(), logprobs.end());
    return {{best - logprobs.begin(), *best}};
  }
  std::vector<std::int64_t> order(logprobs.size());
  std::iota(order.begin(), order.end(), 0);
  const auto larger = [&](std::int64_t a, std::int64_t b) {
    const float la = logprobs[static_cast<std::size_t>(a)], lb = logprobs[static_cast<std::size_t>(b)];
    return la != lb ? la > lb : a < b;
  };
  std::partial_sort(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(n), order.end(), larger);
  std::vector<TokenLogprob> top;
  for (std::size_t i = 0; i < n; ++i) top.push_back({order[i], logprobs[static_cast<std::size_t>(order[i])]});
  return top;
}

}  // namespace

TokenResult token_result(std::span<const float> logprobs, std::int64_t id, std::int64_t top) {
  return {id, logprobs[static_cast<std::size_t>(id)], likeliest(logprobs, top)};
}

void Sequence::take_next(std::span<float> logits, std::span<const float> logprobs, const Tokenizer& tokenizer) {
  if (task.max_new_tokens == 0) {
    event.finish = FinishReason::length;
    return;
  }
  const auto position = static_cast<std::uint64_t>(new_tokens());
  if (task.sampling.changes_logits()) {
    apply_penalties(logits, task.sampling, task.prompt,
                    std::span<const std::int64_t>(ids).subspan(task.prompt.size()));
  }
  const std::int64_t id = sample_token(logits, task.sampling, 0, position);
  event.tokens.push_back(logprobs.empty() ? TokenResult{id, 0, {}} : token_result(logprobs, id, task.top_logprobs));
  ids.push_back(id);
  const bool ends = std::find(task.stop_ids.begin(), task.stop_ids.end(), id) != task.stop_ids.end();
  if (ends || (id == tokenizer.eos_id() && !task.ignore_eos)) {
    event.finish = FinishReason::stop;
  } else {
    // The model's vocabulary may be larger than the tokenizer's; such ids have no text.
    if (id < tokenizer.vocab_size()) event.text += text->push(id);
    if (text->stopped()) {
      event.finish = FinishReason::stop;
    } else if (new_tokens() >= task.max_new_tokens) {
      event.finish = FinishReason::length;
    }
  }
  if (event.finish != FinishReason::none) event.text += text->finish();
}

}  // namespace satformer
