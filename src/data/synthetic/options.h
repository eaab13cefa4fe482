// The difficulty of synthetic tasks. Command line, configuration and documentation all have it from visit().
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/config.h"

namespace satformer {

struct SyntheticOptions {
  std::optional<std::string> task;
  std::int64_t vocab_size = 512, seq_length = 64;
  std::int64_t pairs = 8, questions = 0;
  std::int64_t key_length = 2, value_length = 3;
  double power = 0.01;
  std::int64_t examples = 100'000, val_examples = 1000;
  std::int64_t seed = 42;
  void visit(FieldVisitor& visitor);
  // All but vocab_size and seq_length, which a training run takes from its model and windows.
  void visit_difficulty(FieldVisitor& visitor);
};

}  // namespace satformer
