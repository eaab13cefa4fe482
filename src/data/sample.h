// A sample of the input for training a tokenizer.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "data/text_source.h"

namespace satformer {

struct SampleOptions {
  std::size_t max_bytes = 0;
  std::uint64_t seed = 0;
  bool skip_bad = false;
};

// Documents (pieces of long ones) drawn evenly from the whole input, in its order; all of it where it is small
// enough. Reads the input once and keeps no more than max_bytes of it, a JSON line or two aside.
std::vector<std::string> sample_texts(const std::vector<TextInput>& inputs, const DocumentRules& rules,
                                      const SampleOptions& options);

}  // namespace satformer
