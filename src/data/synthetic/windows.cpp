#include "data/synthetic/windows.h"

#include <algorithm>

#include "base/error.h"

namespace satformer {

SyntheticWindows::SyntheticWindows(const SyntheticOptions& options, const Tokenizer* tokenizer, std::int64_t first,
                                   std::int64_t count)
    : options_(options), first_(first), count_(count), vocab_size_(options.vocab_size) {
  const SyntheticTask& task = synthetic_task(options);
  if (task.text && !tokenizer) fail(ExitCode::config, task.name, " is text: it needs a tokenizer");
  if (task.text) vocab_size_ = tokenizer->vocab_size();
  make_ = task.make(options_, task.text ? tokenizer : nullptr);
}

SyntheticExample SyntheticWindows::example(std::int64_t window) const {
  if (window < 0 || window > count_) fail(ExitCode::internal, "example ", window, " of ", count_, " was asked for");
  Draws draws(static_cast<std::uint64_t>(options_.seed), *options_.task, first_ + window);
  SyntheticExample example = make_(draws);
  if (example.size() != options_.seq_length || example.marks[0].counted()) {
    fail(ExitCode::internal, *options_.task, ": example ", window, " has ", example.size(), " tokens");
  }
  return example;
}

void SyntheticWindows::read(std::int64_t window, std::span<std::int64_t> ids, std::span<TokenMark> marks) const {
  const auto length = static_cast<std::size_t>(options_.seq_length);
  if (window >= count_ || ids.size() != length + 1 || (!marks.empty() && marks.size() != length + 1)) {
    fail(ExitCode::internal, "window ", window, " of ", count_, " was asked for as ", ids.size(), " tokens");
  }
  const SyntheticExample here = example(window), next = example(window + 1);
  std::copy(here.ids.begin(), here.ids.end(), ids.begin());
  ids[length] = next.ids[0];
  if (marks.empty()) return;
  std::copy(here.marks.begin(), here.marks.end(), marks.begin());
  marks[length] = next.marks[0];
}

}  // namespace satformer
