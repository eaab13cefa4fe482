#include "infer/speculative_generator.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/zeros.h>

#include <algorithm>

#include "nn/slot_cache.h"

namespace satformer {
namespace {

struct GrowingRow {
  std::size_t index;  // of its prompt
  std::vector<std::int64_t> ids, proposal;
  PromptLookup lookup;
};

class SpeculativeGenerator {
 public:
  SpeculativeGenerator(Model& model, const std::vector<std::vector<std::int64_t>>& prompts,
                       const GenerateOptions& options)
      : model_(model),
        options_(options),
        cache_(model.config(), std::ssize(prompts), longest(prompts) + options.max_new_tokens,
               longest(prompts) + options.max_new_tokens, model.compute_dtype(), model.parameters().device()),
        results_(prompts.size()) {
    for (std::size_t i = 0; i < prompts.size(); ++i) {
      rows_.push_back({i, prompts[i], {}, PromptLookup(options.speculate)});
    }
  }

  std::vector<std::vector<std::int64_t>> run() {
    while (!rows_.empty() && step()) propose();
    return std::move(results_);
  }

 private:
  static std::int64_t longest(const std::vector<std::vector<std::int64_t>>& prompts) {
    std::int64_t most = 0;
    for (const auto& prompt : prompts) most = std::max(most, std::ssize(prompt));
    return most;
  }

  // What the cache lacks of every row, and its proposal. False: the caller wants no more.
  bool step() {
    std::vector<std::int64_t> counts;
    for (std::size_t r = 0; r < rows_.size(); ++r) {
      counts.push_back(std::ssize(rows_[r].ids) - cache_.row_length(static_cast<std::int64_t>(r)) +
                       std::ssize(rows_[r].proposal));
    }
    const at::Tensor hidden_BTC = hidden(counts);
    std::vector<at::Tensor> states;
    for (std::size_t r = 0; r < rows_.size(); ++r) {
      const std::int64_t proposed = std::ssize(rows_[r].proposal);
      states.push_back(hidden_BTC[static_cast<std::int64_t>(r)].narrow(0, counts[r] - 1 - proposed, 1 + proposed));
    }
    const at::Tensor logits_NV = model_.head(at::cat(states)).cpu().contiguous();
    const auto V = static_cast<std::size_t>(logits_NV.size(1));
    const float* logits = logits_NV.const_data_ptr<float>();
    std::vector<bool> ended(rows_.size(), false);
    for (std::size_t r = 0; r < rows_.size(); ++r) {
      const std::size_t tokens = rows_[r].proposal.size() + 1;
      bool go_on = true;
      ended[r] = extend(r, {logits, tokens * V}, V, go_on);
      if (!go_on) return false;
      logits += tokens * V;
    }
    for (std::size_t r = rows_.size(); r-- > 0;) {
      if (!ended[r]) continue;
      cache_.move_row(std::ssize(rows_) - 1, static_cast<std::int64_t>(r));
      if (r + 1 < rows_.size()) rows_[r] = std::move(rows_.back());
      rows_.pop_back();
    }
    return true;
  }

  at::Tensor hidden(const std::vector<std::int64_t>& counts) {
    const std::int64_t B = std::ssize(counts), T = *std::max_element(counts.begin(), counts.end());
    const at::Tensor ids = at::zeros({B, T}, at::kLong), mask = at::zeros({B, T}, at::kLong);
    for (std::int64_t b = 0; b < B; ++b) {
      const GrowingRow& row = rows_[static_cast<std::size_t>(b)];
      std::int64_t* to = ids.mutable_data_ptr<std::int64_t>() + b * T;
      to = std::copy(row.ids.begin() + cache_.row_length(b), row.ids.end(), to);
      std::copy(row.proposal.begin(), row.proposal.end(), to);
      std::fill_n(mask.mutable_data_ptr<std::int64_t>() + b * T, counts[static_cast<std::size_t>(b)], 1);
    }
    cache_.select(0, counts);
    ForwardOptions forward;
    forward.cache = &cache_;
    forward.observer = options_.observer;
    const at::Device device = model_.parameters().device();
    if (*std::min_element(counts.begin(), counts.end()) < T) forward.attention_mask_BT = mask.to(device);
    if (options_.speculation) ++options_.speculation->passes;
    return model_.hidden(ids.to(device), forward);
  }

  // The tokens that follow a row, from the logits behind its last token and behind each proposed one. Returns whether
  // the row has ended.
  bool extend(std::size_t r, std::span<const float> logits, std::size_t V, bool& go_on) {
    GrowingRow& row = rows_[r];
    std::vector<std::int64_t>& result = results_[row.index];
    std::int64_t accepted = 0;
    const std::size_t before = result.size();
    bool ended = false;
    for (std::size_t i = 0; i <= row.proposal.size(); ++i) {
      const std::int64_t id = sample_token(logits.subspan(i * V, V), options_.sampling, row.index, 0);
      ended = options_.stop_token && id == *options_.stop_token;
      if (ended) break;
      result.push_back(id);
      row.ids.push_back(id);
      if (options_.on_token && !options_.on_token(row.index, id)) {
        go_on = false;
        break;
      }
      ended =
          (options_.ends_row && options_.ends_row(row.index, id)) || std::ssize(result) == options_.max_new_tokens;
      const bool as_proposed = i < row.proposal.size() && id == row.proposal[i];
      if (as_proposed) ++accepted;
      if (!as_proposed || ended) break;
    }
    if (!ended && go_on) cache_.cut_row(static_cast<std::int64_t>(r), std::ssize(row.ids) - 1);
    row.lookup.learn(std::ssize(row.proposal), accepted);
    if (SpeculationCounts* counts = options_.speculation) {
      counts->proposed += std::ssize(row.proposal);
      counts->accepted += accepted;
      counts->tokens += static_cast<std::int64_t>(result.size() - before);
    }
    return ended;
  }

  void propose() {
    const std::int64_t most = proposal_room(std::ssize(rows_));
    for (GrowingRow& row : rows_) {
      // The last token that may come needs no place in the cache.
      const std::int64_t left = options_.max_new_tokens - std::ssize(results_[row.index]) - 1;
      row.proposal = row.lookup.propose(row.ids, std::min(most, left));
    }
  }

  Model& model_;
  const GenerateOptions& options_;
  SlotCache cache_;
  std::vector<GrowingRow> rows_;
  std::vector<std::vector<std::int64_t>> results_;
};

}  // namespace

std::vector<std::vector<std::int64_t>> generate_speculating(Model& model,
                                                            const std::vector<std::vector<std::int64_t>>& prompts,
                                                            const GenerateOptions& options) {
  const at::NoGradGuard no_grad;
  return SpeculativeGenerator(model, prompts, options).run();
}

}  // namespace satformer
