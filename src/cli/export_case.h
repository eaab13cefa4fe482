// What an export and its model compute for the comparison of the two.
#pragma once

#include <string>
#include <vector>

#include "base/json.h"
#include "io/tokenizer.h"
#include "nn/model.h"

namespace satformer::cli {

// The same ids for everybody.
class RandomIds {
 public:
  explicit RandomIds(std::int64_t count) : count_(static_cast<std::uint64_t>(count)) {}
  std::int64_t operator()() {
    state_ = state_ * 6364136223846793005u + 1442695040888963407u;
    return static_cast<std::int64_t>((state_ >> 33) % count_);
  }

 private:
  std::uint64_t count_, state_ = 20260503;
};

// Whole rows, rows of different lengths padded on the left, and their greedy continuations.
struct ExportCase {
  at::Tensor input_ids, logits, padded_ids, mask, padded_logits, generated;
  std::vector<std::vector<std::int64_t>> prompts;  // the padded rows without padding
};
ExportCase make_export_case(Model& model, const Tokenizer* tokenizer);

// [{"text", "ids"}] of scripts, signs and spaces of all kinds.
Json texts_and_ids(const Tokenizer& tokenizer);

double largest(const at::Tensor& difference);  // max |x|

// A folder that is removed with its content.
struct ScratchFolder {
  ScratchFolder();
  ~ScratchFolder();
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;
  std::string path;
};

}  // namespace satformer::cli
