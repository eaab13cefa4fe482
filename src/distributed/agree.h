// What ranks tell one another, and how they share work out.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "distributed/communicator.h"

namespace satformer {

// Whether a flag is set on any rank.
bool any_rank(Communicator& ranks, bool flag);
// The largest value of all ranks.
std::int64_t largest_of_ranks(Communicator& ranks, std::int64_t value);
// The texts of all ranks, on all ranks.
std::vector<std::string> texts_of_ranks(Communicator& ranks, const std::string& text);

// The windows [begin, end) of `windows` that are `rank`'s: consecutive, and at most one more than another rank's.
struct WindowShare {
  std::int64_t begin = 0, end = 0;
};
WindowShare share_of_rank(std::int64_t windows, int rank, int size);

}  // namespace satformer
