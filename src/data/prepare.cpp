#include "data/prepare.h"

#include <algorithm>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/error.h"
#include "base/json.h"
#include "base/progress.h"
#include "data/document_pass.h"
#include "data/output_folder.h"
#include "data/sample.h"
#include "data/text_source.h"
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
  if (!(options.sample > 0 && options.sample <= 1)) {
    refuse("sample = ", options.sample, " must be above 0 and at most 1");
  }
  if (options.max_tokens < 0) refuse("max_tokens = ", options.max_tokens, " is negative");
  constexpr std::int64_t largest_buffer = 1'000'000'000;
  if (options.shuffle_buffer < 0 || options.shuffle_buffer > largest_buffer) {
    refuse("shuffle_buffer = ", options.shuffle_buffer, " must be 0 to ", largest_buffer);
  }
  text_format(options.format);
  if (!options.document_separator.empty() && options.min_document_bytes > 0) {
    refuse("--document-separator and --min-document-bytes exclude one another");
  }
  if (options.document_separator.find('\n') != std::string::npos) refuse("the document separator is one line");
}

// What rank 0 has, on all ranks.
std::string text_of_first(const PrepareRanks& ranks, const std::string& own) {
  return ranks.size == 1 ? own : ranks.exchange(own).front();
}

std::string trained_model(const PrepareOptions& options, const std::vector<TextInput>& inputs) {
  SampleOptions sample;
  sample.max_bytes =
      static_cast<std::size_t>(std::clamp<std::int64_t>(options.train_tokenizer * 2048, 4 << 20, 32 << 20));
  sample.seed = options.seed;
  sample.skip_bad = options.skip_bad;
  const auto texts = sample_texts(inputs, document_rules(options), sample);
  if (std::all_of(texts.begin(), texts.end(), [](const std::string& text) { return is_blank(text); })) {
    fail(ExitCode::data, "prepare: the input holds no text to train a tokenizer on");
  }
  ProgressLine progress;
  progress.update(concat("training a tokenizer of ", options.train_tokenizer, " ids"));
  return train_sentencepiece(texts, options.train_tokenizer);
}

// Rank 0 trains; the others wait for what it learnt.
std::unique_ptr<Tokenizer> make_tokenizer(const PrepareOptions& options, const std::vector<TextInput>& inputs) {
  if (!options.tokenizer.empty()) return load_tokenizer(options.tokenizer);
  const std::string model = options.ranks.rank == 0 ? trained_model(options, inputs) : std::string();
  return make_sentencepiece_tokenizer(text_of_first(options.ranks, model), "the trained tokenizer");
}

// All ranks must turn the same input into the same ids.
void check_same_work(const PrepareOptions& options, const std::vector<TextInput>& inputs,
                     const Tokenizer& tokenizer) {
  Json files = Json::array();
  for (const TextInput& input : inputs) files.push_back({input.path, input.disk_bytes});
  const Json own = {{"files", std::move(files)},
                    {"tokenizer", tokenizer.sha256()},
                    {"options",
                     {options.format, options.text_key, options.document_separator, options.min_document_bytes,
                      options.sample, options.seed, options.skip_bad, options.dedup}}};
  const std::string text = own.dump(-1, ' ', false, Json::error_handler_t::replace);
  const std::string first = text_of_first(options.ranks, text);
  if (text == first) return;
  const Json other = parse_json(first, "rank 0", ExitCode::internal);
  for (const char* what : {"tokenizer", "options", "files"}) {
    if (own[what] != other[what]) {
      fail(ExitCode::data, "prepare: the ", what, " of rank ", options.ranks.rank,
           " are not those of rank 0: ", own[what].dump().substr(0, 200), " and ", other[what].dump().substr(0, 200));
    }
  }
}

// What divides plain text and what names a column is refused where no input is of that form.
void check_options_have_use(const PrepareOptions& options, const std::vector<TextInput>& inputs) {
  const auto plain = [](const TextInput& input) { return input.format == TextFormat::plain; };
  const bool any_plain = std::any_of(inputs.begin(), inputs.end(), plain);
  if (!options.document_separator.empty() && !any_plain) {
    fail(ExitCode::usage, "--document-separator divides plain text, and no input is plain text");
  }
  if (options.min_document_bytes > 0 && !any_plain) {
    fail(ExitCode::usage, "--min-document-bytes divides plain text, and no input is plain text");
  }
  if (options.text_key != PrepareOptions().text_key && std::all_of(inputs.begin(), inputs.end(), plain)) {
    fail(ExitCode::usage,
         "--text-key names a key of JSON lines or a column of Parquet, and every input is plain text");
  }
}

InputList inputs_of(const PrepareOptions& options) {
  const InputRules rules{{(fs::path(options.output_dir) / "manifest.json").string(),
                          (fs::path(options.output_dir) / "tokenizer.json").string()},
                         text_format(options.format)};
  InputList inputs = find_inputs(options.inputs, rules);
  check_options_have_use(options, inputs.files);
  const bool spooled =
      std::any_of(inputs.files.begin(), inputs.files.end(), [](const TextInput& i) { return i.spool; });
  if (spooled && options.ranks.size > 1) {
    fail(ExitCode::usage, "prepare: standard input is one process's; several ranks need files that all can read");
  }
  return inputs;
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
                   {"sampled_out", result.sampled_out},
                   {"duplicate_documents", result.duplicate_documents},
                   {"replaced_bytes", result.replaced_bytes},
                   {"bytes", result.bytes},
                   {"tokens", result.train_tokens + result.val_tokens},
                   {"train", {{"documents", result.train_documents}, {"tokens", result.train_tokens}}},
                   {"val", {{"documents", result.val_documents}, {"tokens", result.val_tokens}}},
                   {"seed", options.seed},
                   {"val_fraction", options.val_fraction},
                   {"sample", options.sample},
                   {"max_tokens", options.max_tokens},
                   {"reached_max_tokens", result.reached_max_tokens},
                   {"shuffle_buffer", options.shuffle_buffer},
                   {"dedup", options.dedup},
                   {"input_format", options.format},
                   {"text_key", options.text_key},
                   {"document_separator", options.document_separator},
                   {"min_document_bytes", options.min_document_bytes}};
  manifest["files"] = Json::array();
  for (ShardWriter* writer : writers) {
    for (const auto& file : writer->finish()) {
      manifest["files"].push_back({{"name", file.name}, {"tokens", file.tokens}, {"sha256", file.sha256}});
    }
  }
  manifest["inputs"] = Json::array();
  for (const TextInput& input : inputs) {
    const Json bytes =
        input.spool ? Json(nullptr) : Json(input.disk_bytes);  // how much of standard input was read is chance
    manifest["inputs"].push_back({{"path", input.path}, {"bytes", bytes}});
  }
  return manifest.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

// The part of ranks above 0.
PrepareResult help_prepare(const PrepareOptions& options) {
  const InputList inputs = inputs_of(options);
  const std::unique_ptr<Tokenizer> tokenizer = make_tokenizer(options, inputs.files);
  check_same_work(options, inputs.files, *tokenizer);
  help_pass(options, inputs.files, *tokenizer);
  if (text_of_first(options.ranks, "") == "again") help_pass(options, inputs.files, *tokenizer);
  return {};
}

}  // namespace

PrepareResult prepare(const PrepareOptions& options) {
  check(options);
  if (options.ranks.rank > 0) return help_prepare(options);
  const InputList inputs = inputs_of(options);
  const OutputFolder folder(options.output_dir, options.overwrite);
  for (const TextInput& input : inputs.files) {
    if (input.spool) input.spool->set_directory(options.output_dir);
  }
  const std::unique_ptr<Tokenizer> tokenizer = make_tokenizer(options, inputs.files);
  check_same_work(options, inputs.files, *tokenizer);

  Split split(options.val_fraction, options.seed);
  auto pass = std::make_unique<DocumentPass>(options, inputs.files, *tokenizer, split);
  PassCounts counts = pass->run();
  const std::int64_t documents = counts.result.documents;
  if (documents == 0) {
    fail(ExitCode::data, "prepare: nothing is left to write: ", counts.result.empty_documents, " empty documents, ",
         counts.result.bad_lines, " bad lines, ", counts.result.sampled_out, " outside the sample in ",
         inputs.files.size(), " files");
  }
  // A small input can leave a split empty: one document then changes sides, and everything is written again.
  const bool needs_train = counts.result.train_documents == 0;
  const bool needs_val = options.val_fraction > 0 && documents > 1 && counts.result.val_documents == 0;
  const bool again = needs_train || needs_val;
  text_of_first(options.ranks, again ? "again" : "");
  if (again) {
    split.force(needs_train ? counts.highest : counts.lowest, needs_val);
    pass.reset();  // its temporary files go before the new ones come
    pass = std::make_unique<DocumentPass>(options, inputs.files, *tokenizer, split);
    counts = pass->run();
  }
  PrepareResult result = std::move(counts.result);
  if (options.val_fraction > 0 && result.val_documents == 0) {
    result.warnings.push_back(result.documents == 1 && options.max_tokens == 0
                                  ? "the input is one document, so there is no validation split: divide it with "
                                    "--document-separator or --min-document-bytes, or give more files"
                                  : "no document is left for the validation split before max_tokens is reached");
  }
  if (result.replaced_bytes > 0) {
    result.warnings.push_back(
        concat(result.replaced_bytes, " bytes of plain text were not UTF-8 and became U+FFFD each"));
  }
  if (inputs.duplicates > 0) {
    result.warnings.push_back(concat(inputs.duplicates, " files were named more than once and are counted once"));
  }
  if (inputs.unrecognised > 0) {
    result.warnings.push_back(
        concat(inputs.unrecognised,
               " files in folders are neither .txt nor .jsonl nor .json (or .gz or .zst of these) nor .parquet and "
               "were left out"));
  }
  result.manifest = make_manifest(options, inputs.files, *tokenizer, result, {&pass->train, &pass->val});
  folder.publish({&pass->train, &pass->val}, *tokenizer, result.manifest);
  return result;
}

}  // namespace satformer
