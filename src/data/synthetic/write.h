// Synthetic examples as token shards with marks beside them (docs/commands/prepare.md).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "data/synthetic/options.h"

namespace satformer {

struct SyntheticPrepareOptions {
  SyntheticOptions synthetic;
  std::string output_dir;
  std::string tokenizer;             // tasks of text: spec of load_tokenizer; empty with train_tokenizer
  std::int64_t train_tokenizer = 0;  // tasks of text: vocabulary of a tokenizer to train on such text; 0: none
  std::int64_t shard_tokens = 100'000'000;
  bool overwrite = false;
};

struct SyntheticPrepareResult {
  std::string manifest;               // manifest.json as written
  std::vector<std::int32_t> example;  // the first training example
};

// Writes train_00000.bin, train_00000.marks, val_00000.bin, ... and manifest.json (last) into output_dir, for tasks
// of text also the tokenizer. Window i of the shards is example i. The same options give the same bytes.
// Errors: usage (options that exclude one another), config (no example fits), data, system as prepare()'s.
SyntheticPrepareResult prepare_synthetic(const SyntheticPrepareOptions& options);

}  // namespace satformer
