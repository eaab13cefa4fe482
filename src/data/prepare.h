// Text to token shards.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/json.h"

namespace satformer {

struct PrepareOptions {
  std::vector<std::string> inputs;  // files, folders (recursively) and globs; .txt, .jsonl/.json(l), each also .gz
  std::string output_dir;
  std::string tokenizer;             // spec of load_tokenizer; empty with train_tokenizer
  std::int64_t train_tokenizer = 0;  // vocabulary of a SentencePiece BPE to train on a sample of the input; 0: none
  std::string text_key = "text";
  double val_fraction = 0.005;  // share of documents, chosen by a hash of (seed, document number)
  std::int64_t shard_tokens = 100'000'000;
  int workers = 0;                 // 0: one per core; the output is the same for any number
  bool skip_bad = false;           // count malformed lines instead of stopping
  std::string document_separator;  // plain text: a line equal to it separates documents; empty: blank lines do not,
                                   // the whole file is one document
  std::uint64_t seed = 42;
  bool overwrite = false;
};

struct PrepareResult {
  std::int64_t documents = 0, empty_documents = 0, bad_lines = 0;
  std::int64_t train_tokens = 0, val_tokens = 0, bytes = 0;
  Json manifest;
};

// Writes train_00000.bin, val_00000.bin, ..., tokenizer.model and manifest.json (last, atomically) into output_dir.
PrepareResult prepare(const PrepareOptions& options);

}  // namespace satformer
