// Generated tasks: examples of a fixed number of tokens in which something is stated and later asked for. An example
// depends on (task, options, seed, example number) alone. One file a task, listed in tasks.cpp.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "data/synthetic/draws.h"
#include "data/synthetic/options.h"
#include "data/token_marks.h"
#include "io/tokenizer.h"

namespace satformer {

// seq_length tokens. A counted token is to be predicted from those before it; the first one never counts.
struct SyntheticExample {
  std::vector<std::int32_t> ids;
  std::vector<TokenMark> marks;

  void add(std::int64_t id, TokenKind kind, bool counted = false) {
    ids.push_back(static_cast<std::int32_t>(id));
    marks.emplace_back(kind, counted);
  }
  std::int64_t size() const { return static_cast<std::int64_t>(ids.size()); }
};
using ExampleMaker = std::function<SyntheticExample(Draws&)>;  // thread-safe

struct SyntheticTask {
  std::string name, summary;
  std::vector<std::string> options;  // that it reads besides seq_length, examples, val_examples and example_seed
  std::vector<TokenKind> targets;    // kinds of its counted tokens
  bool text = false;                 // its ids are a tokenizer's
  // Error(config) for options that no example fits. `tokenizer` (null unless `text`) outlives the maker.
  ExampleMaker (*make)(const SyntheticOptions& options, const Tokenizer* tokenizer) = nullptr;
};

const std::vector<SyntheticTask>& synthetic_tasks();
std::vector<std::string> synthetic_task_names();
bool is_synthetic_task(std::string_view name);
const SyntheticTask& synthetic_task(const SyntheticOptions& options);  // Error(config) if no task is chosen
bool task_reads(const SyntheticTask& task, std::string_view option);

// What determines the examples: the task and every option that it reads, without how many examples there are.
Json synthetic_settings(const SyntheticOptions& options, const Tokenizer* tokenizer);

// Plain text like that of recall_stories, to train a tokenizer on.
std::vector<std::string> story_samples(std::uint64_t seed, std::int64_t count);

namespace synthetic {
SyntheticTask mqar();
SyntheticTask induction();
SyntheticTask selective_copy();
SyntheticTask phone_book();
SyntheticTask mixed_recall();
SyntheticTask recall_stories();
}  // namespace synthetic

}  // namespace satformer
