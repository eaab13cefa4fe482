#include "infer/generator.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <numeric>

#include "base/error.h"
#include "infer/speculative_generator.h"

namespace satformer {
namespace {

at::Tensor long_tensor(const std::vector<std::int64_t>& values) {
  const at::Tensor tensor = at::empty({static_cast<std::int64_t>(values.size())}, at::kLong);
  std::copy(values.begin(), values.end(), tensor.mutable_data_ptr<std::int64_t>());
  return tensor;
}

}  // namespace

std::vector<std::vector<std::int64_t>> generate(Model& model, const std::vector<std::vector<std::int64_t>>& prompts,
                                                const GenerateOptions& options) {
  check_sampling(options.sampling);
  const auto rows = static_cast<std::int64_t>(prompts.size());
  std::vector<std::vector<std::int64_t>> result(prompts.size());
  if (rows == 0 || options.max_new_tokens <= 0) return result;
  std::int64_t longest = 0;
  for (const auto& prompt : prompts) {
    if (prompt.empty()) fail(ExitCode::data, "a prompt must have at least one token");
    for (const std::int64_t id : prompt) {
      if (id < 0 || id >= model.config().vocab_size) {
        fail(ExitCode::data, "token id ", id, " is outside the vocabulary of ", model.config().vocab_size);
      }
    }
    longest = std::max(longest, static_cast<std::int64_t>(prompt.size()));
  }
  const std::int64_t context = model.config().max_position_embeddings;
  if (longest + options.max_new_tokens > context) {
    fail(ExitCode::config, "a prompt of ", longest, " tokens and ", options.max_new_tokens,
         " new ones are longer than the model's context of ", context);
  }
  check_speculation(options.speculate);
  if (options.speculate > 0 && options.sampling.temperature == 0)
    return generate_speculating(model, prompts, options);
  at::NoGradGuard no_grad;
  const at::Device device = model.parameters().device();
  at::Tensor ids = at::zeros({rows, longest}, at::kLong), mask = at::zeros({rows, longest}, at::kLong);
  for (std::int64_t r = 0; r < rows; ++r) {
    const auto& prompt = prompts[static_cast<std::size_t>(r)];
    const std::int64_t pad = longest - static_cast<std::int64_t>(prompt.size());
    std::copy(prompt.begin(), prompt.end(), ids.mutable_data_ptr<std::int64_t>() + r * longest + pad);
    mask.select(0, r).narrow(0, pad, longest - pad).fill_(1);
  }
  KvCache cache(model.config(), rows, longest + options.max_new_tokens - 1, model.compute_dtype(), device);
  ForwardOptions forward;
  forward.cache = &cache;
  forward.observer = options.observer;
  forward.logits_to_keep = 1;
  forward.attention_mask_BT = mask.to(device);
  at::Tensor logits = model.logits(ids.to(device), forward);
  forward.attention_mask_BT = at::Tensor();
  std::vector<std::size_t> active(prompts.size());  // the prompt of each row of the cache
  std::iota(active.begin(), active.end(), std::size_t{0});
  std::vector<bool> done(prompts.size(), false);
  for (std::int64_t step = 0; step < options.max_new_tokens; ++step) {
    const at::Tensor host = logits.select(1, -1).cpu().contiguous();
    std::vector<std::int64_t> next(active.size(), 0), going_on;
    for (std::size_t r = 0; r < active.size(); ++r) {
      const std::size_t row = active[r];
      if (done[row]) continue;
      const std::span<const float> scores{host.const_data_ptr<float>() + static_cast<std::int64_t>(r) * host.size(1),
                                          static_cast<std::size_t>(host.size(1))};
      const std::int64_t id = sample_token(scores, options.sampling, row, static_cast<std::uint64_t>(step));
      if (options.stop_token && id == *options.stop_token) {
        done[row] = true;
        continue;
      }
      result[row].push_back(id);
      next[r] = id;
      if (options.on_token && !options.on_token(row, id)) return result;
      done[row] = options.ends_row && options.ends_row(row, id);
      if (!done[row]) going_on.push_back(static_cast<std::int64_t>(r));
    }
    if (going_on.empty() || step + 1 == options.max_new_tokens) break;
    if (2 * going_on.size() <= active.size()) {  // rows that ended cost as much as the others
      cache.select_rows(long_tensor(going_on).to(device));
      std::vector<std::size_t> kept;
      std::vector<std::int64_t> kept_next;
      for (const std::int64_t r : going_on) {
        kept.push_back(active[static_cast<std::size_t>(r)]);
        kept_next.push_back(next[static_cast<std::size_t>(r)]);
      }
      active = std::move(kept);
      next = std::move(kept_next);
    }
    logits = model.logits(long_tensor(next).unsqueeze(1).to(device), forward);
  }
  return result;
}

}  // namespace satformer
