// Text to token shards.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace satformer {

// The processes that share the work. Each calls prepare() with the same options and the same files in sight; rank 0
// alone writes.
struct PrepareRanks {
  int rank = 0, size = 1;
  // The texts of all ranks, in their order, on all of them; all call it alike.
  std::function<std::vector<std::string>(const std::string& own)> exchange = {};
};

struct PrepareOptions {
  // Files, folders (recursively) and globs: .txt, .jsonl, .json, each also .gz and .zst, and .parquet; "-" is
  // standard input.
  std::vector<std::string> inputs;
  std::string format = "auto";  // text, jsonl, parquet: what all inputs hold, whatever their names; "-" needs it
  std::string output_dir;
  std::string tokenizer;             // spec of load_tokenizer; empty with train_tokenizer
  std::int64_t train_tokenizer = 0;  // vocabulary of a SentencePiece BPE to train on a sample of the input; 0: none
  std::string text_key = "text";     // the key of JSON lines, the column of Parquet
  double val_fraction = 0.005;       // share of documents, chosen by a hash of (seed, document number)
  std::int64_t shard_tokens = 100'000'000;
  int workers = 0;  // 0: one per core; the output is the same for any number
  bool skip_bad =
      false;          // count malformed lines and replace bytes of plain text that are no UTF-8 instead of stopping
  double sample = 1;  // share of the documents to read, by a hash of (seed, place in the input)
  std::int64_t max_tokens = 0;      // end after the document that fills this many training tokens; 0: never
  std::int64_t shuffle_buffer = 0;  // documents that are held back to come out in random order; 0: the input's order
  bool dedup = false;               // leave out documents whose text was there, line ends aside
  // Plain text: a line equal to document_separator separates documents; else, where min_document_bytes > 0, the first
  // blank line after that many bytes does; else the whole file is one document.
  std::string document_separator;
  std::int64_t min_document_bytes = 0;
  std::uint64_t seed = 42;
  bool overwrite = false;
  PrepareRanks ranks;
};

struct PrepareResult {
  std::int64_t documents = 0;        // written, in both splits
  std::int64_t empty_documents = 0;  // nothing but white space: counted, not written
  std::int64_t bad_lines = 0;        // skipped with skip_bad
  std::int64_t sampled_out = 0;      // not in the sample
  std::int64_t duplicate_documents = 0;
  std::int64_t replaced_bytes = 0;  // with skip_bad
  bool reached_max_tokens = false;
  std::int64_t train_documents = 0, val_documents = 0;
  std::int64_t train_tokens = 0, val_tokens = 0;  // EOS included
  std::int64_t bytes = 0;                         // UTF-8 text of the documents written
  std::vector<std::string> warnings;
  std::string manifest;  // manifest.json as written
};

// Writes train_00000.bin, val_00000.bin, ..., the tokenizer and manifest.json (last) into output_dir. All files are
// written under temporary names and get their own when everything is there. The same options give the same bytes,
// whatever the number of workers and ranks. Ranks above 0 get an empty result.
//
// A validation split that the hash leaves empty, or that would take every document, is given or loses the document
// nearest to the border, so that two documents are enough for both splits.
//
// Errors: usage (options that exclude one another or are out of range), data (inputs, a bad line as file:line,
// nothing to write, shards that are there already), system (folder not writable, disk full).
PrepareResult prepare(const PrepareOptions& options);

}  // namespace satformer
