#include "infer/engine.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/log_softmax.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

#include "base/failure.h"
#include "infer/prompt_lookup.h"
#include "infer/row_gates.h"
#include "infer/sequence.h"
#include "kernels/linear/linear.h"
#include "nn/device.h"
#include "nn/slot_cache.h"

namespace satformer {
namespace {

using Clock = std::chrono::steady_clock;

// Shorter common beginnings are not worth the copy.
constexpr std::int64_t min_reused_tokens = 16;

}  // namespace

struct Engine::Impl {
  Impl(Model& m, const Tokenizer& t, const EngineOptions& o)
      : model(m),
        tokenizer(t),
        options(o),
        space(edit_space(m, {})),
        layout(gate_layout_of(space)),
        gates(layout, space.heads),
        context(o.max_context > 0 ? std::min(o.max_context, m.config().max_position_embeddings)
                                  : m.config().max_position_embeddings),
        cache(m.config(), o.max_rows, std::min<std::int64_t>(context, 256), context, m.compute_dtype(),
              m.parameters().device()),
        kept(static_cast<std::size_t>(o.max_rows)) {
    totals.cache_bytes = cache.bytes();
    worker = std::thread([this] { loop(); });
  }
  ~Impl() {
    {
      const std::lock_guard lock(mutex);
      stopping = true;
    }
    wake.notify_all();
    worker.join();
  }

  void loop();
  void admit();
  void leave(std::size_t index);
  void drop_cancelled();
  void step();
  void propose(std::vector<std::int64_t>& counts);
  void pass(std::size_t first, const std::vector<std::int64_t>& counts);
  void prompt_results(Sequence& sequence, const at::Tensor& hidden_TC, std::int64_t begin, std::int64_t count);
  std::int64_t next_tokens(std::size_t row, const at::Tensor& logits_NV, const at::Tensor& logprobs_NV);

  Model& model;
  const Tokenizer& tokenizer;
  const EngineOptions options;
  const EditSpace space;
  const std::vector<GateEntry> layout;
  RowGates gates;
  const std::int64_t context;
  SlotCache cache;

  // Of the engine's thread. rows[r] is in row r of the cache; kept[r] are the ids that this row of the cache holds
  // and the intervention under which, also after its sequence has gone.
  std::vector<std::unique_ptr<Sequence>> rows;
  struct Kept {
    std::vector<std::int64_t> ids;
    std::string intervention;
  };
  std::vector<Kept> kept;
  std::vector<bool> ended;  // of rows, in the current pass

  mutable std::mutex mutex;  // of what follows
  std::condition_variable wake;
  std::deque<std::unique_ptr<Sequence>> waiting;
  EngineCounts totals;
  bool stopping = false;
  std::thread worker;
};

// Rows are the first ones of the cache; a sequence that comes gets the next, unless a free row holds a beginning of
// it.
void Engine::Impl::admit() {
  while (std::ssize(rows) < options.max_rows) {
    std::unique_ptr<Sequence> sequence;
    {
      const std::lock_guard lock(mutex);
      if (waiting.empty()) return;
      sequence = std::move(waiting.front());
      waiting.pop_front();
      totals.running = std::ssize(rows) + 1;
      totals.waiting = std::ssize(waiting);
    }
    const std::size_t row = rows.size();
    std::int64_t reused = 0;
    std::size_t from = row;
    if (options.reuse_prefixes && sequence->plain()) {
      for (std::size_t r = 0; r < kept.size(); ++r) {
        if (kept[r].intervention != sequence->task.intervention) continue;
        const auto& ids = kept[r].ids;
        // The prompt's last token is always computed: its state gives the first new one.
        const std::int64_t most = std::min<std::int64_t>(
            {std::ssize(ids), sequence->prompt_size() - 1, cache.row_length(static_cast<std::int64_t>(r))});
        const auto end = std::mismatch(ids.begin(), ids.begin() + most, sequence->ids.begin());
        const std::int64_t common = end.first - ids.begin();
        if (common > reused || (common == reused && r == row)) {
          reused = common;
          from = r;
        }
      }
    }
    if (reused < min_reused_tokens) reused = 0;
    if (reused == 0) {
      cache.clear_row(static_cast<std::int64_t>(row));
    } else {
      cache.copy_prefix(static_cast<std::int64_t>(from), static_cast<std::int64_t>(row), reused);
    }
    kept[row].ids.assign(sequence->ids.begin(), sequence->ids.begin() + reused);
    kept[row].intervention = sequence->task.intervention;
    rows.push_back(std::move(sequence));
    const std::lock_guard lock(mutex);
    totals.prompt_tokens += rows.back()->prompt_size();
    totals.reused_tokens += reused;
  }
}

// The last row takes the place of the one that leaves; the content of that one goes, unless it is itself the last.
void Engine::Impl::leave(std::size_t index) {
  const std::size_t last = rows.size() - 1;
  if (index != last) {
    cache.move_row(static_cast<std::int64_t>(last), static_cast<std::int64_t>(index));
    kept[index] = std::move(kept[last]);
    kept[last] = Kept();
    rows[index] = std::move(rows[last]);
  }
  rows.pop_back();
}

void Engine::Impl::drop_cancelled() {
  for (std::size_t r = rows.size(); r-- > 0;) {
    if (!rows[r]->ticket->cancelled()) continue;
    const std::unique_ptr<Sequence> gone = std::move(rows[r]);
    leave(r);
    gone->end(FinishReason::cancelled);
    const std::lock_guard lock(mutex);
    ++totals.cancelled;
  }
  std::vector<std::unique_ptr<Sequence>> gone;
  {
    const std::lock_guard lock(mutex);
    for (auto& sequence : waiting) {
      if (sequence->ticket->cancelled()) gone.push_back(std::move(sequence));
    }
    std::erase(waiting, nullptr);
    totals.waiting = std::ssize(waiting);
    totals.running = std::ssize(rows);
    totals.cancelled += std::ssize(gone);
  }
  for (const auto& sequence : gone) sequence->end(FinishReason::cancelled);
}

void Engine::Impl::loop() {
  const at::NoGradGuard no_grad;
  set_num_threads(options.threads);  // the setting is each thread's own
  for (;;) {
    {
      std::unique_lock lock(mutex);
      wake.wait(lock, [this] { return stopping || !waiting.empty() || !rows.empty(); });
      if (stopping) break;
    }
    const auto start = Clock::now();
    drop_cancelled();
    admit();
    step();
    const std::lock_guard lock(mutex);
    totals.running = std::ssize(rows);
    totals.busy_seconds += std::chrono::duration<double>(Clock::now() - start).count();
    totals.cache_bytes = cache.bytes();
  }
  for (const auto& sequence : rows) sequence->end(FinishReason::cancelled);
  rows.clear();
  std::deque<std::unique_ptr<Sequence>> left;
  {
    const std::lock_guard lock(mutex);
    left.swap(waiting);
  }
  for (const auto& sequence : left) sequence->end(FinishReason::cancelled);
}

// One chunk of prompts, if any is not computed yet, and one token of every sequence that is.
void Engine::Impl::step() {
  const auto left = [&](std::size_t r) {
    return std::ssize(rows[r]->ids) - cache.row_length(static_cast<std::int64_t>(r));
  };
  const bool cpu = model.parameters().device().is_cpu();
  std::size_t first = 0;
  while (first < rows.size() && left(first) < 2) ++first;
  if (first < rows.size()) {
    std::vector<std::int64_t> counts;
    std::int64_t widest = 0;
    for (std::size_t r = first; r < rows.size(); ++r) {
      const std::int64_t count = left(r) < 2 ? 0 : std::min(left(r), options.chunk_tokens);
      const std::int64_t wider = std::max(widest, count);
      const std::int64_t together = (std::ssize(counts) + 1) * wider;
      // On a CPU prompts share a pass only where its size changes no bit.
      const bool other_bits = cpu && together > few_rows_limit;
      if (!counts.empty() && (together > options.chunk_tokens || other_bits)) break;
      widest = wider;
      counts.push_back(count);
    }
    while (counts.back() == 0) counts.pop_back();
    pass(first, counts);
    drop_cancelled();
  }
  std::vector<std::int64_t> counts;
  bool any = false;
  for (std::size_t r = 0; r < rows.size(); ++r) {
    counts.push_back(left(r) == 1 ? 1 : 0);
    any = any || counts.back() == 1;
  }
  if (!any) return;
  if (options.speculate > 0) propose(counts);
  pass(0, counts);
}

void Engine::Impl::propose(std::vector<std::int64_t>& counts) {
  const std::int64_t most = proposal_room(std::ssize(counts));
  for (std::size_t r = 0; r < counts.size(); ++r) {
    Sequence& sequence = *rows[r];
    if (counts[r] != 1 || !sequence.lookup) continue;
    // The last token that may come needs no place in the cache.
    const std::int64_t left = sequence.task.max_new_tokens - sequence.new_tokens() - 1;
    sequence.proposal = sequence.lookup->propose(sequence.ids, std::min(most, left));
    counts[r] += std::ssize(sequence.proposal);
  }
}

void Engine::Impl::pass(std::size_t first, const std::vector<std::int64_t>& counts) {
  const auto B = std::ssize(counts);
  const std::int64_t T = *std::max_element(counts.begin(), counts.end());
  ended.assign(rows.size(), false);
  try {
    at::Tensor ids = at::zeros({B, T}, at::kLong), mask = at::zeros({B, T}, at::kLong);
    std::vector<std::int64_t> begins;
    std::vector<RowGates::Row> gate_rows;
    bool padded = false;
    for (std::int64_t b = 0; b < B; ++b) {
      Sequence& sequence = *rows[first + static_cast<std::size_t>(b)];
      const std::int64_t count = counts[static_cast<std::size_t>(b)];
      begins.push_back(cache.row_length(static_cast<std::int64_t>(first) + b));
      const std::int64_t proposed = std::ssize(sequence.proposal);
      std::int64_t* row_ids = ids.mutable_data_ptr<std::int64_t>() + b * T;
      std::copy_n(sequence.ids.begin() + begins.back(), count - proposed, row_ids);
      std::copy(sequence.proposal.begin(), sequence.proposal.end(), row_ids + count - proposed);
      std::fill_n(mask.mutable_data_ptr<std::int64_t>() + b * T, count, 1);
      padded = padded || count < T;
      gate_rows.push_back({sequence.editor ? &*sequence.editor : nullptr,
                           sequence.task.gates ? &sequence.event.gates : nullptr, count});
    }
    cache.select(static_cast<std::int64_t>(first), counts);
    ForwardOptions forward;
    forward.cache = &cache;
    if (gates.begin(std::move(gate_rows))) forward.observer = &gates;
    const at::Device device = model.parameters().device();
    if (padded) forward.attention_mask_BT = mask.to(device);
    const at::Tensor hidden_BTC = model.hidden(ids.to(device), forward);

    std::vector<std::size_t> due;  // rows whose last token was computed
    std::vector<at::Tensor> states;
    bool logprobs = false;
    for (std::int64_t b = 0; b < B; ++b) {
      const std::size_t r = first + static_cast<std::size_t>(b);
      Sequence& sequence = *rows[r];
      const std::int64_t begin = begins[static_cast<std::size_t>(b)], proposed = std::ssize(sequence.proposal),
                         count = counts[static_cast<std::size_t>(b)] - proposed;
      kept[r].ids.insert(kept[r].ids.end(), sequence.ids.begin() + begin, sequence.ids.begin() + begin + count);
      if (sequence.task.prompt_logprobs && count > 0 && begin < sequence.prompt_size()) {
        prompt_results(sequence, hidden_BTC[b], begin, count);
      }
      if (count == 0 || begin + count < std::ssize(sequence.ids)) continue;
      due.push_back(r);
      states.push_back(hidden_BTC[b].narrow(0, count - 1, 1 + proposed));
      logprobs = logprobs || sequence.task.top_logprobs >= 0;
    }
    if (!due.empty()) {
      const at::Tensor logits_NV = model.head(at::cat(states)).to(at::kCPU).contiguous();
      const at::Tensor logprobs_NV = logprobs ? at::log_softmax(logits_NV, -1) : at::Tensor();
      std::int64_t next = 0, added = 0, proposed = 0;
      for (std::size_t i = 0; i < due.size(); ++i) {
        const std::int64_t count = states[i].size(0);
        added += next_tokens(due[i], logits_NV.narrow(0, next, count),
                             logprobs ? logprobs_NV.narrow(0, next, count) : at::Tensor());
        next += count;
        proposed += count - 1;
      }
      const std::lock_guard lock(mutex);
      totals.new_tokens += added;
      totals.proposed_tokens += proposed;
    }
    const std::lock_guard lock(mutex);
    ++totals.passes;
  } catch (const std::exception& error) {
    const Failure failure = failure_of(error);
    for (std::size_t r = first; r < first + counts.size(); ++r) {
      if (counts[r - first] == 0) continue;
      rows[r]->proposal.clear();
      rows[r]->event.finish = FinishReason::error;
      rows[r]->event.code = failure.code;
      rows[r]->event.error = failure.message;
      ended[r] = true;
      cache.wipe_row(static_cast<std::int64_t>(r));
      kept[r] = Kept();
    }
  }
  for (std::size_t r = rows.size(); r-- > 0;) {
    Sequence& sequence = *rows[r];
    if (!ended[r]) {
      const EngineEvent& event = sequence.event;
      if (!event.tokens.empty() || !event.text.empty()) sequence.tell();
      continue;
    }
    const std::unique_ptr<Sequence> gone = std::move(rows[r]);
    leave(r);
    {
      const std::lock_guard lock(mutex);
      ++(gone->event.finish == FinishReason::error ? totals.failed : totals.finished);
      totals.running = std::ssize(rows);
    }
    gone->tell();
  }
}

// The tokens that follow a row's last one: logits [1 + proposed, V]. As long as a token is the one that was proposed,
// the next logits hold too. What was computed behind the last of them leaves the cache. Returns how many they are.
std::int64_t Engine::Impl::next_tokens(std::size_t row, const at::Tensor& logits_NV, const at::Tensor& logprobs_NV) {
  Sequence& sequence = *rows[row];
  const std::vector<std::int64_t> proposal = std::exchange(sequence.proposal, {});
  const auto V = static_cast<std::size_t>(logits_NV.size(1));
  const std::int64_t before = sequence.new_tokens(), computed = std::ssize(sequence.ids);
  std::int64_t accepted = 0;
  try {
    for (std::size_t i = 0; i <= proposal.size(); ++i) {
      std::span<const float> logprobs_V;
      if (sequence.task.top_logprobs >= 0) logprobs_V = {logprobs_NV.const_data_ptr<float>() + i * V, V};
      sequence.take_next({logits_NV.mutable_data_ptr<float>() + i * V, V}, logprobs_V, tokenizer);
      const bool as_proposed = i < proposal.size() && sequence.ids.back() == proposal[i];
      if (as_proposed) ++accepted;
      ended[row] = sequence.event.finish != FinishReason::none;
      if (!as_proposed || ended[row]) break;
    }
  } catch (const Error& error) {
    sequence.event.finish = FinishReason::error;
    sequence.event.code = error.code();
    sequence.event.error = error.what();
    ended[row] = true;
    // Nothing of a row that is not finite may be weighed again, not even with zero.
    cache.wipe_row(static_cast<std::int64_t>(row));
    kept[row] = Kept();
    return sequence.new_tokens() - before;
  }
  if (!proposal.empty()) {
    cache.cut_row(static_cast<std::int64_t>(row), computed + accepted);
    kept[row].ids.insert(kept[row].ids.end(), proposal.begin(), proposal.begin() + accepted);
    sequence.lookup->learn(std::ssize(proposal), accepted);
    const std::lock_guard lock(mutex);
    totals.accepted_tokens += accepted;
  }
  return sequence.new_tokens() - before;
}

// Of the prompt's tokens begin + 1 to begin + count, which the states predict.
void Engine::Impl::prompt_results(Sequence& sequence, const at::Tensor& hidden_TC, std::int64_t begin,
                                  std::int64_t count) {
  const std::int64_t targets = std::min(count, sequence.prompt_size() - begin - 1);
  constexpr std::int64_t block = 128;  // rows of logits held at once
  for (std::int64_t t = 0; t < targets; t += block) {
    const std::int64_t n = std::min(block, targets - t);
    const at::Tensor logprobs = at::log_softmax(model.head(hidden_TC.narrow(0, t, n)), -1).to(at::kCPU).contiguous();
    const auto V = static_cast<std::size_t>(logprobs.size(1));
    for (std::int64_t i = 0; i < n; ++i) {
      const std::span<const float> row{logprobs.const_data_ptr<float>() + static_cast<std::size_t>(i) * V, V};
      const std::int64_t id = sequence.ids[static_cast<std::size_t>(begin + t + i + 1)];
      const TokenResult result = token_result(row, id, std::max<std::int64_t>(0, sequence.task.top_logprobs));
      if (!std::isfinite(result.logprob)) fail(ExitCode::non_finite, "the model's log-probabilities are not finite");
      sequence.event.prompt.push_back(result);
    }
  }
}

Engine::Engine(Model& model, const Tokenizer& tokenizer, const EngineOptions& options) {
  if (options.max_rows < 1 || options.max_rows > 1024) {
    fail(ExitCode::usage, "a batch of ", options.max_rows, " sequences must be at least 1 and at most 1024");
  }
  if (options.chunk_tokens < 1)
    fail(ExitCode::usage, "a chunk of ", options.chunk_tokens, " tokens must be positive");
  if (options.max_waiting < 0) fail(ExitCode::usage, "a queue of ", options.max_waiting, " must not be negative");
  check_speculation(options.speculate);
  if (options.max_context < 0) fail(ExitCode::usage, "a context of ", options.max_context, " must not be negative");
  impl_ = std::make_unique<Impl>(model, tokenizer, options);
}
Engine::~Engine() = default;

void Engine::check(const EngineTask& task) const {
  const std::int64_t vocabulary = vocab_size();
  if (task.prompt.empty()) fail(ExitCode::data, "a prompt must have at least one token");
  for (const std::int64_t id : task.prompt) {
    if (id < 0 || id >= vocabulary) {
      fail(ExitCode::data, "token id ", id, " is outside the vocabulary of ", vocabulary);
    }
  }
  if (task.max_new_tokens < 0) fail(ExitCode::usage, task.max_new_tokens, " new tokens: a number of at least 0");
  const auto length = std::ssize(task.prompt);
  if (length + task.max_new_tokens > impl_->context) {
    fail(ExitCode::config, "the context is ", impl_->context, " tokens long; a prompt of ", length, " tokens and ",
         task.max_new_tokens, " new ones are ", length + task.max_new_tokens);
  }
  check_sampling(task.sampling);
  for (const auto& [id, value] : task.sampling.bias) {
    if (id < 0 || id >= vocabulary) {
      fail(ExitCode::data, "token id ", id, " of the bias is outside the vocabulary of ", vocabulary);
    }
    if (!std::isfinite(value)) fail(ExitCode::usage, "the bias of token id ", id, " must be finite");
  }
  if (task.gates && impl_->layout.empty()) fail(ExitCode::usage, "this model has no gates");
  if (!task.intervention.empty()) parse_row_intervention(task.intervention, impl_->space);
}

std::vector<std::shared_ptr<EngineTicket>> Engine::submit(std::vector<EngineTask> tasks,
                                                          std::vector<EngineSink> sinks) {
  std::vector<std::unique_ptr<Sequence>> sequences;
  std::vector<std::shared_ptr<EngineTicket>> tickets;
  for (std::size_t i = 0; i < tasks.size(); ++i) {
    check(tasks[i]);
    auto sequence = std::make_unique<Sequence>();
    sequence->ids = tasks[i].prompt;
    sequence->text.emplace(impl_->tokenizer, tasks[i].stop);
    std::vector<std::int64_t> known = tasks[i].prompt;
    std::erase_if(known, [&](std::int64_t id) { return id >= impl_->tokenizer.vocab_size(); });
    sequence->text->begin(known);
    if (!tasks[i].intervention.empty()) {
      sequence->editor.emplace(parse_row_intervention(tasks[i].intervention, impl_->space));
    }
    const bool greedy = tasks[i].sampling.temperature == 0;
    if (impl_->options.speculate > 0 && greedy && !tasks[i].gates) sequence->lookup.emplace(impl_->options.speculate);
    sequence->task = std::move(tasks[i]);
    sequence->sink = std::move(sinks[i]);
    sequence->ticket = std::make_shared<EngineTicket>();
    tickets.push_back(sequence->ticket);
    sequences.push_back(std::move(sequence));
  }
  {
    const std::lock_guard lock(impl_->mutex);
    const std::int64_t free = impl_->options.max_rows - impl_->totals.running;
    const std::int64_t room =
        impl_->options.max_waiting + std::max<std::int64_t>(0, free) - std::ssize(impl_->waiting);
    if (std::ssize(sequences) > room && !(impl_->waiting.empty() && room > 0)) return {};
    for (auto& sequence : sequences) impl_->waiting.push_back(std::move(sequence));
    impl_->totals.waiting = std::ssize(impl_->waiting);
  }
  impl_->wake.notify_all();
  return tickets;
}

EngineCounts Engine::counts() const {
  const std::lock_guard lock(impl_->mutex);
  return impl_->totals;
}

const std::vector<GateEntry>& Engine::gate_layout() const { return impl_->layout; }
std::int64_t Engine::gate_heads() const { return impl_->space.heads; }
std::int64_t Engine::max_context() const { return impl_->context; }
std::int64_t Engine::vocab_size() const { return impl_->model.config().vocab_size; }

}  // namespace satformer
