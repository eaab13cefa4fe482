#include "infer/prompt_lookup.h"

#include <algorithm>

#include "base/error.h"
#include "kernels/attention/few_queries.h"
#include "kernels/linear/linear.h"

namespace satformer {
namespace {

constexpr std::int64_t shortest_match = 2, longest_match = 4;

}  // namespace

std::vector<std::int64_t> PromptLookup::propose(std::span<const std::int64_t> ids, std::int64_t room) const {
  const std::int64_t n = std::ssize(ids), count = std::min(room, next_);
  if (count < 1) return {};
  const auto id = [&](std::int64_t i) { return ids[static_cast<std::size_t>(i)]; };
  std::int64_t best = shortest_match - 1, begin = 0;  // `begin`: behind the best occurrence
  for (std::int64_t end = n - 1; end >= shortest_match && best < longest_match; --end) {
    std::int64_t length = 0;
    while (length < longest_match && length < end && id(end - 1 - length) == id(n - 1 - length)) ++length;
    if (length <= best) continue;
    best = length;
    begin = end;
  }
  std::vector<std::int64_t> proposal;
  if (best < shortest_match) return proposal;
  // Where the context ends it goes on with the proposal itself: a text that repeats.
  for (std::int64_t i = begin; std::ssize(proposal) < count; ++i) {
    proposal.push_back(i < n ? id(i) : proposal[static_cast<std::size_t>(i - n)]);
  }
  return proposal;
}

void PromptLookup::learn(std::int64_t proposed, std::int64_t accepted) {
  if (proposed == 0) return;
  next_ = accepted == proposed ? std::min(longest_, std::max(next_, 2 * proposed)) : accepted + 1;
  next_ = std::min(next_, longest_);
}

std::int64_t proposal_room(std::int64_t rows) {
  return std::min(cpu::few_queries_limit, few_rows_limit / std::max<std::int64_t>(1, rows)) - 1;
}

void check_speculation(std::int64_t longest) {
  const std::int64_t most = proposal_room(1);
  if (longest < 0 || longest > most) {
    fail(ExitCode::usage, "proposals of ", longest, " tokens: must be at least 1 and at most ", most,
         ", or 0 for none");
  }
}

}  // namespace satformer
