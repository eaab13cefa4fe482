#include "distributed/agree.h"

#include <ATen/ops/empty.h>

#include <algorithm>

namespace satformer {

std::int64_t largest_of_ranks(Communicator& ranks, std::int64_t value) {
  at::Tensor own = at::empty({1}, at::kLong), all = at::empty({ranks.size()}, at::kLong);
  *own.mutable_data_ptr<std::int64_t>() = value;
  ranks.all_gather(own, all);
  return *std::max_element(all.const_data_ptr<std::int64_t>(), all.const_data_ptr<std::int64_t>() + ranks.size());
}

bool any_rank(Communicator& ranks, bool flag) {
  return ranks.size() == 1 ? flag : largest_of_ranks(ranks, flag ? 1 : 0) != 0;
}

std::vector<std::string> texts_of_ranks(Communicator& ranks, const std::string& text) {
  std::vector<std::string> texts;
  for (int rank = 0; rank < ranks.size(); ++rank) texts.push_back(ranks.broadcast_text(text, rank));
  return texts;
}

WindowShare share_of_rank(std::int64_t windows, int rank, int size) {
  return {windows * rank / size, windows * (rank + 1) / size};
}

}  // namespace satformer
