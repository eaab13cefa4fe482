#include "data/prepare.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <thread>
#include <utility>

#include "base/error.h"
#include "base/json.h"
#include "base/progress.h"
#include "base/random.h"
#include "data/ordered_pipeline.h"
#include "data/sample.h"
#include "data/text_source.h"
#include "data/tokenize.h"
#include "io/file.h"
#include "io/shard_writer.h"
#include "io/shards.h"
#include "io/tokenizer.h"

namespace satformer {
namespace {

namespace fs = std::filesystem;

void check(const PrepareOptions& options) {
  const auto refuse = [](const auto&... what) { fail(ExitCode::usage, "prepare: ", what...); };
  if (options.inputs.empty()) refuse("no input is given");
  if (options.output_dir.empty()) refuse("no output folder is given");
  if (options.tokenizer.empty() == (options.train_tokenizer == 0)) {
    refuse("exactly one of --tokenizer and --train-tokenizer is needed");
  }
  if (options.train_tokenizer != 0) check_trained_vocab(options.train_tokenizer);
  if (!(options.val_fraction >= 0 && options.val_fraction < 1)) {
    refuse("val_fraction = ", options.val_fraction, " must be at least 0 and below 1");
  }
  if (options.workers < 0 || options.workers > 256) refuse("workers = ", options.workers, " must be 0 to 256");
  if (options.min_document_bytes < 0) refuse("min_document_bytes = ", options.min_document_bytes, " is negative");
  if (options.shard_tokens < 2) refuse("shard_tokens = ", options.shard_tokens, " must be at least 2");
  if (!options.document_separator.empty() && options.min_document_bytes > 0) {
    refuse("--document-separator and --min-document-bytes exclude one another");
  }
  if (options.document_separator.find('\n') != std::string::npos) refuse("the document separator is one line");
}

// The output folder, held by this process alone.
class OutputFolder {
 public:
  OutputFolder(const std::string& path, bool overwrite) : path_(path) {
    make_directories(path);
    descriptor_ = ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (descriptor_ < 0) fail_errno("open folder", path, errno);
    try {
      claim(overwrite);
    } catch (...) {
      ::close(descriptor_);
      throw;
    }
  }
  ~OutputFolder() { ::close(descriptor_); }
  OutputFolder(const OutputFolder&) = delete;
  OutputFolder& operator=(const OutputFolder&) = delete;

  std::string file(std::string_view name) const { return (fs::path(path_) / name).string(); }

  void publish(std::initializer_list<ShardWriter*> writers, const Tokenizer& tokenizer,
               const std::string& manifest) const {
    write_file_atomic(file(unfinished_marker), "");
    remove(file("manifest.json"));
    for (const std::string& shard : shards(".bin")) remove(shard);
    for (ShardWriter* writer : writers) writer->publish();
    tokenizer.save(path_);
    write_file_atomic(file("manifest.json"), manifest);
    remove(file(unfinished_marker));
    sync_directory(path_);
  }

 private:
  void claim(bool overwrite) const {
    if (::flock(descriptor_, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
      fail(ExitCode::data, path_, ": another prepare is writing to this folder");
    }
    if (::access(path_.c_str(), W_OK | X_OK) != 0) fail_errno("write to folder", path_, errno);
    const bool unfinished = fs::exists(file(unfinished_marker));
    const bool taken = fs::exists(file("manifest.json")) || !shards(".bin").empty();
    if (taken && !unfinished && !overwrite) {
      fail(ExitCode::data, path_, ": token shards are there already; --overwrite replaces them");
    }
    for (const std::string& left_over : shards(".bin.tmp")) remove(left_over);
  }

  std::vector<std::string> shards(std::string_view ending) const {
    std::vector<std::string> paths;
    for (const auto& entry : fs::directory_iterator(path_)) {
      const std::string name = entry.path().filename().string();
      if ((name.starts_with("train") || name.starts_with("val")) && name.ends_with(ending)) {
        paths.push_back(entry.path().string());
      }
    }
    return paths;
  }

  static void remove(const std::string& path) {
    if (::unlink(path.c_str()) != 0 && errno != ENOENT) fail_errno("remove", path, errno);
  }

  std::string path_;
  int descriptor_ = -1;
};

// Which documents are for validation: those whose number draws below the fraction, and one put in or out by hand.
class Split {
 public:
  Split(double fraction, std::uint64_t seed) : fraction_(fraction), draws_(seed, hash_name("validation_split")) {}
  double draw(std::int64_t document) const { return draws_.uniform(static_cast<std::uint64_t>(document)); }
  bool is_validation(std::int64_t document) const {
    if (document == forced_) return forced_to_validation_;
    return draw(document) < fraction_;
  }
  void force(std::int64_t document, bool to_validation) {
    forced_ = document;
    forced_to_validation_ = to_validation;
  }

 private:
  double fraction_;
  Philox draws_;
  std::int64_t forced_ = -1;
  bool forced_to_validation_ = false;
};

struct Counts {
  PrepareResult result;
  std::int64_t lowest = -1, highest = -1;  // documents with the lowest and the highest draw
};

class Progress {
 public:
  explicit Progress(std::uint64_t total) : total_(total) {}
  void update(const TokenBatch& batch, std::int64_t text_bytes, std::int64_t tokens) {
    const double elapsed = std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
    if (elapsed < 0.5) return;
    const double share =
        total_ ? std::min(1.0, static_cast<double>(batch.disk_position) / static_cast<double>(total_)) : 1.0;
    char text[160];
    std::snprintf(text, sizeof text, "tokenizing: %5.1f%%, %.1f MB/s, %s tokens, %s left", 100 * share,
                  static_cast<double>(text_bytes) / 1e6 / elapsed, human_count(static_cast<double>(tokens)).c_str(),
                  human_duration(share > 0 ? elapsed * (1 - share) / share : 0).c_str());
    line_.update(text);
  }

 private:
  std::uint64_t total_;
  ProgressLine line_;
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

// Reads and tokenizes everything once, into the two writers.
class Pass {
 public:
  Pass(const PrepareOptions& options, const std::vector<TextInput>& inputs, const Tokenizer& tokenizer,
       const Split& split)
      : options_(options),
        inputs_(inputs),
        tokenizer_(tokenizer),
        split_(split),
        train(writer_options("train")),
        val(writer_options("val")) {}

  Counts run() {
    std::uint64_t total = 0;
    for (const TextInput& input : inputs_) total += input.disk_bytes;
    Progress progress(total);
    BatchReader reader(inputs_, {options_.document_separator, options_.min_document_bytes});
    const TokenizeRules rules{&tokenizer_, options_.text_key, options_.skip_bad};
    const unsigned cores = std::max(1u, std::thread::hardware_concurrency());
    const int workers = options_.workers > 0 ? options_.workers : static_cast<int>(std::min(cores, 256u));
    OrderedPipeline<TextBatch, TokenBatch> pipeline(
        [&](TextBatch& batch) { return reader.next(batch); },
        [&](TextBatch& batch) { return tokenize(batch, inputs_[batch.input].path, rules); }, workers);
    while (const auto batch = pipeline.pop()) {
      write(*batch);
      progress.update(*batch, counts_.result.bytes, train.tokens() + val.tokens());
    }
    train.finish();
    val.finish();
    PrepareResult& result = counts_.result;
    result.documents = result.train_documents + result.val_documents;
    result.train_tokens = train.tokens();
    result.val_tokens = val.tokens();
    return counts_;
  }

 private:
  ShardWriter::Options writer_options(const std::string& prefix) const {
    return {.directory = options_.output_dir,
            .prefix = prefix,
            .vocab_size = tokenizer_.vocab_size(),
            .shard_tokens = options_.shard_tokens,
            .eos_id = tokenizer_.eos_id()};
  }

  void write(const TokenBatch& batch) {
    PrepareResult& result = counts_.result;
    result.empty_documents += batch.empty_documents;
    result.bad_lines += batch.bad_lines;
    std::span<const std::int32_t> ids = batch.ids;
    for (const TokenBatch::Part& part : batch.parts) {
      const bool is_val = split_.is_validation(document_);
      ShardWriter& writer = is_val ? val : train;
      writer.append(ids.first(part.ids));
      ids = ids.subspan(part.ids);
      result.bytes += static_cast<std::int64_t>(part.bytes);
      if (!part.ends_document) continue;
      writer.end_document();
      ++(is_val ? result.val_documents : result.train_documents);
      if (counts_.lowest < 0 || split_.draw(document_) < split_.draw(counts_.lowest)) counts_.lowest = document_;
      if (counts_.highest < 0 || split_.draw(document_) > split_.draw(counts_.highest)) counts_.highest = document_;
      ++document_;
    }
  }

  const PrepareOptions& options_;
  const std::vector<TextInput>& inputs_;
  const Tokenizer& tokenizer_;
  const Split& split_;
  std::int64_t document_ = 0;  // number among those written, over all files
  Counts counts_;

 public:
  ShardWriter train, val;
};

std::unique_ptr<Tokenizer> make_tokenizer(const PrepareOptions& options, const std::vector<TextInput>& inputs) {
  if (!options.tokenizer.empty()) return load_tokenizer(options.tokenizer);
  SampleOptions sample;
  sample.max_bytes =
      static_cast<std::size_t>(std::clamp<std::int64_t>(options.train_tokenizer * 2048, 4 << 20, 32 << 20));
  sample.seed = options.seed;
  sample.text_key = options.text_key;
  sample.skip_bad = options.skip_bad;
  const auto texts = sample_texts(inputs, {options.document_separator, options.min_document_bytes}, sample);
  if (std::all_of(texts.begin(), texts.end(), [](const std::string& text) { return is_blank(text); })) {
    fail(ExitCode::data, "prepare: the input holds no text to train a tokenizer on");
  }
  ProgressLine progress;
  progress.update(concat("training a tokenizer of ", options.train_tokenizer, " ids"));
  return make_sentencepiece_tokenizer(train_sentencepiece(texts, options.train_tokenizer), "the trained tokenizer");
}

std::string make_manifest(const PrepareOptions& options, const std::vector<TextInput>& inputs,
                          const Tokenizer& tokenizer, const PrepareResult& result,
                          std::initializer_list<ShardWriter*> writers) {
  Json manifest = {{"format", shard_format},
                   {"version", shard_format_version},
                   {"bytes_per_id", id_width(tokenizer.vocab_size())},
                   {"tokenizer",
                    {{"name", tokenizer.name()},
                     {"sha256", tokenizer.sha256()},
                     {"vocab_size", tokenizer.vocab_size()},
                     {"eos_id", tokenizer.eos_id()}}},
                   {"documents", result.documents},
                   {"empty_documents", result.empty_documents},
                   {"bad_lines", result.bad_lines},
                   {"bytes", result.bytes},
                   {"tokens", result.train_tokens + result.val_tokens},
                   {"train", {{"documents", result.train_documents}, {"tokens", result.train_tokens}}},
                   {"val", {{"documents", result.val_documents}, {"tokens", result.val_tokens}}},
                   {"seed", options.seed},
                   {"val_fraction", options.val_fraction}};
  manifest["files"] = Json::array();
  for (ShardWriter* writer : writers) {
    for (const auto& file : writer->finish()) {
      manifest["files"].push_back({{"name", file.name}, {"tokens", file.tokens}, {"sha256", file.sha256}});
    }
  }
  manifest["inputs"] = Json::array();
  for (const TextInput& input : inputs) {
    manifest["inputs"].push_back({{"path", input.path}, {"bytes", input.disk_bytes}});
  }
  return manifest.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace

PrepareResult prepare(const PrepareOptions& options) {
  check(options);
  const std::string own_files[] = {(fs::path(options.output_dir) / "manifest.json").string(),
                                   (fs::path(options.output_dir) / "tokenizer.json").string()};
  const InputList inputs = find_inputs(options.inputs, own_files);
  const OutputFolder folder(options.output_dir, options.overwrite);
  const std::unique_ptr<Tokenizer> tokenizer = make_tokenizer(options, inputs.files);

  Split split(options.val_fraction, options.seed);
  auto pass = std::make_unique<Pass>(options, inputs.files, *tokenizer, split);
  Counts counts = pass->run();
  const std::int64_t documents = counts.result.documents;
  if (documents == 0) {
    fail(ExitCode::data, "prepare: nothing is left to write: ", counts.result.empty_documents, " empty documents, ",
         counts.result.bad_lines, " bad lines in ", inputs.files.size(), " files");
  }
  // A small input can leave a split empty: one document then changes sides, and everything is written again.
  const bool needs_train = counts.result.train_documents == 0;
  const bool needs_val = options.val_fraction > 0 && documents > 1 && counts.result.val_documents == 0;
  if (needs_train || needs_val) {
    split.force(needs_train ? counts.highest : counts.lowest, needs_val);
    pass.reset();  // its temporary files go before the new ones come
    pass = std::make_unique<Pass>(options, inputs.files, *tokenizer, split);
    counts = pass->run();
  }
  PrepareResult result = std::move(counts.result);
  if (options.val_fraction > 0 && result.val_documents == 0) {
    result.warnings.push_back(
        "the input is one document, so there is no validation split: divide it with --document-separator or "
        "--min-document-bytes, or give more files");
  }
  if (inputs.duplicates > 0) {
    result.warnings.push_back(concat(inputs.duplicates, " files were named more than once and are counted once"));
  }
  if (inputs.unrecognised > 0) {
    result.warnings.push_back(
        concat(inputs.unrecognised,
               " files in folders are neither .txt nor .jsonl nor .json (or .gz of these) and were "
               "left out"));
  }
  result.manifest = make_manifest(options, inputs.files, *tokenizer, result, {&pass->train, &pass->val});
  folder.publish({&pass->train, &pass->val}, *tokenizer, result.manifest);
  return result;
}

}  // namespace satformer
