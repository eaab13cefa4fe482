#include <cstdio>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/json.h"
#include "base/progress.h"
#include "cli/command.h"
#include "cli/options.h"
#include "cli/prepare_synthetic.h"
#include "cli/rank_session.h"
#include "data/prepare.h"
#include "distributed/agree.h"
#include "distributed/ranks.h"

namespace satformer::cli {
namespace {

constexpr const char* footer =
    R"(Inputs are files, folders (read recursively) and globs: .txt is plain text, .jsonl and .json hold one JSON
object a line, each may be compressed (.gz, .zst); of .parquet one column is read. "-" is standard input, whose --format
must be said. A byte order mark is dropped and CRLF read as LF.

A plain text file is one document unless --document-separator or --min-document-bytes divides it; a large file needs
one of them for a validation split. Documents of white space alone are counted and not written.

Writes train_00000.bin, val_00000.bin, ...: little-endian ids of 2 bytes (4 above 65,536 ids), a document's tokens and
then end-of-sequence; the tokenizer; and manifest.json with counts and checksums. The same input and options give the
same bytes whatever --workers is, and however many ranks share the work (torchrun, mpirun, srun). A run that is stopped leaves no shards.

  satformer prepare corpus/*.jsonl.gz -o data --train-tokenizer 32000
  satformer prepare book.txt -o data --tokenizer byte --min-document-bytes 4000
  zstdcat dump.zst | satformer prepare - --format jsonl -o data --tokenizer byte --dedup --max-tokens 1000000000)";

void check_device(const std::string& device) {
  const bool numbered = device.starts_with("cuda:") && device.size() > 5 &&
                        device.find_first_not_of("0123456789", 5) == std::string::npos;
  if (device != "cpu" && device != "cuda" && !numbered) {
    fail(ExitCode::usage, "--device '", device, "' is not one of cpu, cuda, cuda:N");
  }
}

void print_summary(const PrepareOptions& options, const PrepareResult& result) {
  const Json manifest = parse_json(result.manifest, "manifest.json");
  std::printf("%s\n", options.output_dir.c_str());
  for (const Json& file : manifest["files"]) {
    std::printf("  %-16s %14lld tokens  sha256 %.12s\n", file["name"].get<std::string>().c_str(),
                static_cast<long long>(file["tokens"].get<std::int64_t>()),
                file["sha256"].get<std::string>().c_str());
  }
  const Json& tokenizer = manifest["tokenizer"];
  std::printf("  tokenizer        %s, %lld ids of %d bytes, sha256 %.12s\n",
              tokenizer["name"].get<std::string>().c_str(),
              static_cast<long long>(tokenizer["vocab_size"].get<std::int64_t>()),
              manifest["bytes_per_id"].get<int>(), tokenizer["sha256"].get<std::string>().c_str());
  std::printf("  documents        %lld train, %lld validation, %lld empty, %lld bad lines skipped\n",
              static_cast<long long>(result.train_documents), static_cast<long long>(result.val_documents),
              static_cast<long long>(result.empty_documents), static_cast<long long>(result.bad_lines));
  const auto also = [](std::int64_t count, const char* what) {
    if (count > 0) std::printf("  %-16s %lld %s\n", "", static_cast<long long>(count), what);
  };
  also(result.sampled_out, "outside the sample");
  also(result.duplicate_documents, "identical to an earlier one and left out");
  const double tokens = static_cast<double>(result.train_tokens + result.val_tokens);
  std::printf("  text             %s, %s tokens, %.2f bytes a token\n",
              human_bytes(static_cast<double>(result.bytes)).c_str(), human_count(tokens).c_str(),
              static_cast<double>(result.bytes) / tokens);
  std::fflush(stdout);
  for (const std::string& warning : result.warnings) std::fprintf(stderr, "note: %s\n", warning.c_str());
}

}  // namespace

int run_prepare(std::span<const std::string> arguments) {
  if (asks_for_synthetic(arguments)) return run_prepare_synthetic(arguments);
  PrepareOptions prepare_options;
  std::int64_t seed = static_cast<std::int64_t>(prepare_options.seed);
  std::string device = "cpu";
  double timeout = default_rank_timeout;
  Options options("prepare", "Turn text into token shards. Generated tasks: 'satformer prepare --synthetic --help'.");
  options.add("inputs", prepare_options.inputs, "text files, folders and globs", true)
      .add("--output,-o", prepare_options.output_dir, "folder for the shards", true)
      .add("--tokenizer", prepare_options.tokenizer, "'byte', a SentencePiece model, or a folder with a tokenizer")
      .add("--train-tokenizer", prepare_options.train_tokenizer,
           "train a SentencePiece BPE tokenizer of this many ids on a sample of the input")
      .add("--format", prepare_options.format, "what the inputs hold: auto (by name), text, jsonl or parquet")
      .add("--text-key", prepare_options.text_key,
           "the key of JSON lines, or the column of Parquet, that holds the text")
      .add("--val-fraction", prepare_options.val_fraction, "share of the documents kept for validation")
      .add("--document-separator", prepare_options.document_separator,
           "plain text: a line equal to this separates documents")
      .add("--min-document-bytes", prepare_options.min_document_bytes,
           "plain text: end a document at the first blank line after this many bytes (0: at the end of the file)")
      .add("--shard-tokens", prepare_options.shard_tokens, "most tokens in a shard")
      .add("--workers", prepare_options.workers, "tokenizer threads (0: one a core)")
      .add("--sample", prepare_options.sample, "share of the documents to read, drawn by a hash of seed and place")
      .add("--max-tokens", prepare_options.max_tokens,
           "end after the document that fills this many training tokens (0: never)")
      .add("--shuffle-buffer", prepare_options.shuffle_buffer,
           "documents that are held back and come out in random order (0: keep the order)")
      .flag("--dedup", prepare_options.dedup, "leave out documents whose text was there before")
      .flag("--skip-bad", prepare_options.skip_bad,
            "count malformed lines, and replace bytes that are not UTF-8, instead of stopping at the first")
      .add("--seed", seed, "seed of the sample, the shuffle, the validation split and the tokenizer's training text")
      .flag("--overwrite", prepare_options.overwrite, "replace shards that are in the folder")
      .add("--timeout", timeout,
           "with several ranks: seconds until one that is stopped, stuck or missing is given up")
      .add("--device", device, "accepted like everywhere; this command works on the CPU")
      .footer(footer);
  if (!options.parse(arguments)) return 0;
  check_device(device);
  if (seed < 0) fail(ExitCode::usage, "--seed ", seed, " must be at least 0");
  prepare_options.seed = static_cast<std::uint64_t>(seed);
  RankSession session(timeout);
  return session.run([&](Communicator& ranks) {
    const LongWork reading(ranks);
    prepare_options.ranks = {ranks.rank(), ranks.size(),
                             [&](const std::string& own) { return texts_of_ranks(ranks, own); }};
    const PrepareResult result = prepare(prepare_options);
    if (ranks.rank() == 0) print_summary(prepare_options, result);
    return 0;
  });
}

}  // namespace satformer::cli
