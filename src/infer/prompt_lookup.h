// Speculation without a second model: what followed the newest tokens where they stood before is proposed as their
// continuation, and one forward pass over the proposal tells how much of it the model would have said itself.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace satformer {

class PromptLookup {
 public:
  explicit PromptLookup(std::int64_t longest) : longest_(longest), next_(longest) {}
  // At most `room` ids, or none. The context is searched for the longest run of 2 to 4 tokens that ends it, the last
  // occurrence among equals.
  std::vector<std::int64_t> propose(std::span<const std::int64_t> ids, std::int64_t room) const;
  // The next proposals are as long as the text bears: shorter after a refusal, longer after a full success.
  void learn(std::int64_t proposed, std::int64_t accepted);

 private:
  std::int64_t longest_, next_;
};

// Tokens of proposals, and those of them that were what the model itself would have chosen.
struct SpeculationCounts {
  std::int64_t proposed = 0, accepted = 0;
  std::int64_t passes = 0, tokens = 0;  // of the model, prompts included; new ones
};

// Longest proposal for each of `rows` sequences in one pass, so that the pass is one of few rows and queries,
// where every token has the bits that it has in a step of its own. 0: too many sequences.
std::int64_t proposal_room(std::int64_t rows);
// Error(usage) unless it is 0 (off) to what proposal_room(1) allows.
void check_speculation(std::int64_t longest);

}  // namespace satformer
