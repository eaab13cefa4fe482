#include "io/bpe.h"

#include <bit>
#include <queue>

namespace satformer {
namespace {

constexpr std::size_t short_word = 48;  // below it a scan for the best pair is faster than a queue

void join_short(std::vector<std::int32_t>& symbols, const PairTable& pairs) {
  while (symbols.size() > 1) {
    const PairTable::Join* best = nullptr;
    std::size_t at = 0;
    for (std::size_t i = 0; i + 1 < symbols.size(); ++i) {
      const PairTable::Join* join = pairs.find(symbols[i], symbols[i + 1]);
      if (join && (!best || join->rank < best->rank)) {
        best = join;
        at = i;
      }
    }
    if (!best) return;
    symbols[at] = best->token;
    symbols.erase(symbols.begin() + static_cast<std::ptrdiff_t>(at) + 1);
  }
}

// A pair that could be joined when it was queued; stale if its left symbol or the result changed meanwhile.
struct Candidate {
  std::int32_t rank;
  std::uint32_t left, right;
  std::int32_t left_token, right_token;
  bool operator<(const Candidate& other) const {  // the queue's top is the largest
    return rank != other.rank ? rank > other.rank : left > other.left;
  }
};

void join_long(std::vector<std::int32_t>& symbols, const PairTable& pairs) {
  const auto count = static_cast<std::uint32_t>(symbols.size());
  constexpr std::int32_t gone = -1;
  std::vector<std::uint32_t> previous(count), next(count);
  std::priority_queue<Candidate> queue;
  const auto offer = [&](std::uint32_t left, std::uint32_t right) {
    if (const auto* join = pairs.find(symbols[left], symbols[right])) {
      queue.push({join->rank, left, right, symbols[left], symbols[right]});
    }
  };
  for (std::uint32_t i = 0; i < count; ++i) {
    previous[i] = i - 1;
    next[i] = i + 1;
    if (i + 1 < count) offer(i, i + 1);
  }
  while (!queue.empty()) {
    const Candidate c = queue.top();
    queue.pop();
    if (symbols[c.left] != c.left_token || symbols[c.right] != c.right_token || next[c.left] != c.right) continue;
    symbols[c.left] = pairs.find(c.left_token, c.right_token)->token;
    symbols[c.right] = gone;
    next[c.left] = next[c.right];
    if (next[c.left] < count) {
      previous[next[c.left]] = c.left;
      offer(c.left, next[c.left]);
    }
    if (c.left > 0) offer(previous[c.left], c.left);
  }
  std::erase(symbols, gone);
}

}  // namespace

PairTable::PairTable(std::size_t pairs)
    : mask_(std::bit_ceil(pairs * 2 + 2) - 1), keys_(mask_ + 1, empty), joins_(mask_ + 1) {}

void PairTable::insert(std::int32_t left, std::int32_t right, Join join) {
  const std::uint64_t key = key_of(left, right);
  std::size_t at = place(key);
  while (keys_[at] != empty && keys_[at] != key) at = (at + 1) & mask_;
  keys_[at] = key;
  joins_[at] = join;
}

void join_pairs(std::vector<std::int32_t>& symbols, const PairTable& pairs) {
  if (symbols.size() < short_word) {
    join_short(symbols, pairs);
  } else {
    join_long(symbols, pairs);
  }
}

}  // namespace satformer
