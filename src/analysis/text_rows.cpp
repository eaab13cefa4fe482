#include "analysis/text_rows.h"

#include <ATen/ops/empty.h>

#include <algorithm>

#include "base/error.h"

namespace satformer {

TextRow text_row(std::string_view text, const Tokenizer& tokenizer, const ModelConfig& config,
                 const std::string& what) {
  const std::vector<std::int32_t> ids = tokenizer.encode(text);
  if (ids.empty()) fail(ExitCode::usage, what, ": the text holds no token");
  const auto room = std::min<std::size_t>(ids.size(), static_cast<std::size_t>(config.max_position_embeddings - 1));
  TextRow row;
  row.cut = static_cast<std::int64_t>(ids.size() - room);
  row.tokens_1T1 = at::empty({1, static_cast<std::int64_t>(room) + 2}, at::kLong);
  std::int64_t* out = row.tokens_1T1.mutable_data_ptr<std::int64_t>();
  out[0] = out[room + 1] = tokenizer.eos_id();
  std::copy(ids.begin(), ids.begin() + static_cast<std::ptrdiff_t>(room), out + 1);
  for (std::size_t i = 0; i < room + 2; ++i) {
    if (out[i] < 0 || out[i] >= config.vocab_size) {
      fail(ExitCode::data, what, ": token ", out[i], " is outside the model's vocabulary of ", config.vocab_size);
    }
  }
  return row;
}

}  // namespace satformer
