#include "infer/text_model.h"

#include <algorithm>
#include <numeric>

#include "base/error.h"
#include "base/unicode.h"
#include "infer/generator.h"

namespace satformer {

std::int64_t default_prefix_token(const Tokenizer& tokenizer) {
  return tokenizer.bos_id() >= 0 ? tokenizer.bos_id() : tokenizer.eos_id();
}

std::vector<std::int64_t> TextModel::encode(std::string_view text, bool with_bos) const {
  std::vector<std::int64_t> ids;
  if (with_bos && tokenizer.bos_id() >= 0) ids.push_back(tokenizer.bos_id());
  for (const std::int32_t id : tokenizer.encode(text)) ids.push_back(id);
  return ids;
}

LikelihoodRequest TextModel::pair(std::string_view context, std::string_view continuation) const {
  LikelihoodRequest request;
  const std::string_view kept = strip_right(context);
  if (kept.empty()) {
    request.continuation = encode(std::string(context) + std::string(continuation), false);
    if (!request.continuation.empty() && request.continuation.front() == prefix_token) {
      request.continuation.erase(request.continuation.begin());
    }
    request.context = {prefix_token};
    return request;
  }
  request.context = encode(kept, add_bos);
  const std::vector<std::int64_t> whole = encode(std::string(context) + std::string(continuation), add_bos);
  if (whole.size() > request.context.size()) {
    request.continuation.assign(whole.begin() + static_cast<std::ptrdiff_t>(request.context.size()), whole.end());
  }
  return request;
}

std::vector<LikelihoodRequest> rolling_windows(std::span<const std::int64_t> tokens, std::int64_t prefix_token,
                                               std::int64_t window, std::int64_t stride) {
  if (window < 1 || stride < 1 || stride > window) {
    fail(ExitCode::usage, "a stride of ", stride, " must be at least 1 and at most the context of ", window);
  }
  std::vector<LikelihoodRequest> windows;
  const auto total = static_cast<std::int64_t>(tokens.size());
  const auto part = [&](std::int64_t begin, std::int64_t end) {
    return std::vector<std::int64_t>(tokens.begin() + begin, tokens.begin() + end);
  };
  for (std::int64_t done = 0; done < total;) {
    const std::int64_t end = std::min(total, done + (done == 0 ? window : stride));
    LikelihoodRequest request;
    // The input is the window's `window` tokens before the last target.
    request.context =
        done == 0 ? std::vector<std::int64_t>{prefix_token} : part(std::max<std::int64_t>(0, end - window - 1), done);
    request.continuation = part(done, end);
    windows.push_back(std::move(request));
    done = end;
  }
  return windows;
}

std::vector<LikelihoodRequest> TextModel::rolling(std::string_view text, std::int64_t window,
                                                  std::int64_t stride) const {
  return rolling_windows(encode(text, add_bos), prefix_token, window, stride);
}

std::vector<std::int64_t> TextModel::prompt(std::string_view text, std::int64_t max_new_tokens) const {
  const std::int64_t room = max_length - max_new_tokens;
  if (room < 1) {
    fail(ExitCode::config, "up to ", max_new_tokens, " new tokens leave no room for a prompt in a context of ",
         max_length);
  }
  std::vector<std::int64_t> ids = encode(text, add_bos);
  if (ids.empty()) ids.push_back(prefix_token);
  if (static_cast<std::int64_t>(ids.size()) > room) ids.erase(ids.begin(), ids.end() - room);
  return ids;
}

namespace {

// The text of one growing row, up to its first stop string.
class RowText {
 public:
  RowText(const Tokenizer& tokenizer, const std::vector<std::string>& stop) : decoder_(tokenizer), stop_(stop) {}
  bool push(std::int64_t id) {
    text_ += decoder_.push(static_cast<std::int32_t>(id));
    return cut();
  }
  std::string finish() {
    if (!stopped_) {
      text_ += decoder_.finish();
      cut();
    }
    return std::move(text_);
  }

 private:
  bool cut() {
    std::size_t end = std::string::npos;
    for (const std::string& stop : stop_) {
      if (!stop.empty()) end = std::min(end, text_.find(stop));
    }
    if (end == std::string::npos) return false;
    text_.resize(end);
    stopped_ = true;
    return true;
  }

  StreamDecoder decoder_;
  const std::vector<std::string>& stop_;
  std::string text_;
  bool stopped_ = false;
};

bool same_settings(const GenerationRequest& a, const GenerationRequest& b) {
  return a.max_new_tokens == b.max_new_tokens && a.sampling.temperature == b.sampling.temperature &&
         a.sampling.top_k == b.sampling.top_k && a.sampling.top_p == b.sampling.top_p &&
         a.sampling.seed == b.sampling.seed;
}

}  // namespace

void generate_texts(const TextModel& text_model, std::span<const GenerationRequest> requests,
                    const GenerationOptions& options) {
  std::vector<std::size_t> order(requests.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    const GenerationRequest &x = requests[a], &y = requests[b];
    if (x.max_new_tokens != y.max_new_tokens) return x.max_new_tokens > y.max_new_tokens;
    return x.prompt.size() > y.prompt.size();
  });
  for (std::size_t begin = 0; begin < order.size();) {
    const GenerationRequest& first = requests[order[begin]];
    std::vector<std::vector<std::int64_t>> prompts;
    std::vector<RowText> texts;
    std::size_t end = begin;
    for (; end < order.size() && static_cast<std::int64_t>(end - begin) < options.batch_size; ++end) {
      const GenerationRequest& request = requests[order[end]];
      if (!same_settings(first, request)) break;
      prompts.push_back(request.prompt);
      texts.emplace_back(text_model.tokenizer, request.stop);
    }
    GenerateOptions generation;
    generation.max_new_tokens = first.max_new_tokens;
    generation.sampling = first.sampling;
    generation.observer = text_model.observer;
    generation.stop_token = text_model.tokenizer.eos_id();
    generation.ends_row = [&](std::size_t row, std::int64_t id) { return texts[row].push(id); };
    generate(text_model.model, prompts, generation);
    for (std::size_t r = 0; r < texts.size(); ++r) {
      if (options.done && !options.done(order[begin + r], texts[r].finish())) return;
    }
    begin = end;
  }
}

}  // namespace satformer
