#include "data/synthetic/write.h"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <span>

#include "base/error.h"
#include "base/progress.h"
#include "data/output_folder.h"
#include "data/synthetic/windows.h"
#include "io/file.h"
#include "io/shard_writer.h"
#include "io/shards.h"

namespace satformer {
namespace {

// A file and the hash of what goes into it.
class HashedFile {
 public:
  explicit HashedFile(const std::string& path) : file_(path) {}
  void write(std::span<const std::byte> bytes) {
    file_.write(bytes);
    hash_.update(bytes);
  }
  std::string close() {
    file_.close_synced();
    return hash_.hex();
  }
  void commit() { file_.commit(); }

 private:
  AtomicFile file_;
  Sha256 hash_;
};

class SplitWriter {
 public:
  SplitWriter(const OutputFolder& folder, std::string prefix, const SyntheticWindows& windows,
              std::int64_t shard_tokens)
      : folder_(folder),
        prefix_(std::move(prefix)),
        windows_(windows),
        width_(static_cast<std::size_t>(id_width(windows.vocab_size()))),
        shard_examples_((shard_tokens - 1) / windows.seq_length()) {}

  // The manifest's entries of the files.
  void write(Json& files, const std::function<void(std::int64_t)>& progress) {
    for (std::int64_t first = 0; first < windows_.size(); first += shard_examples_) {
      const std::int64_t count = std::min(shard_examples_, windows_.size() - first);
      char number[32];
      std::snprintf(number, sizeof number, "_%05zu", files_.size() / 2);
      const std::string name = prefix_ + number;
      HashedFile& ids = open(name + ".bin");
      HashedFile& marks = open(name + std::string(marks_ending));
      for (std::int64_t i = 0; i <= count; ++i) {
        SyntheticExample example = windows_.example(first + i);
        if (i == count) {  // the last target of the last window
          example.ids.resize(1);
          example.marks.resize(1);
        }
        encode(example.ids);
        ids.write(encoded_);
        marks.write(std::as_bytes(std::span(example.marks)));
        if (i % 1024 == 0) progress(first + i);
      }
      files.push_back({{"name", name + ".bin"},
                       {"tokens", count * windows_.seq_length() + 1},
                       {"sha256", ids.close()},
                       {"marks", {{"name", name + std::string(marks_ending)}, {"sha256", marks.close()}}}});
    }
  }
  void publish() {
    for (const auto& file : files_) file->commit();
  }

 private:
  HashedFile& open(const std::string& name) {
    files_.push_back(std::make_unique<HashedFile>(folder_.file(name)));
    return *files_.back();
  }
  void encode(std::span<const std::int32_t> ids) {
    encoded_.resize(ids.size() * width_);
    for (std::size_t i = 0; i < ids.size(); ++i) {
      const auto id = static_cast<std::uint32_t>(ids[i]);
      std::memcpy(encoded_.data() + i * width_, &id, width_);  // little-endian: the low bytes come first
    }
  }

  const OutputFolder& folder_;
  std::string prefix_;
  const SyntheticWindows& windows_;
  std::size_t width_;
  std::int64_t shard_examples_;
  std::vector<std::unique_ptr<HashedFile>> files_;
  std::vector<std::byte> encoded_;
};

std::unique_ptr<Tokenizer> make_tokenizer(const SyntheticPrepareOptions& options, const SyntheticTask& task) {
  const bool named = !options.tokenizer.empty(), trained = options.train_tokenizer != 0;
  if (!task.text) {
    if (named || trained) {
      fail(ExitCode::usage, "prepare: ", task.name, " is made of ids and takes no tokenizer");
    }
    return nullptr;
  }
  if (named == trained) {
    fail(ExitCode::usage, "prepare: ", task.name,
         " is text: exactly one of --tokenizer and --train-tokenizer is needed");
  }
  if (named) return load_tokenizer(options.tokenizer);
  check_trained_vocab(options.train_tokenizer);
  constexpr std::int64_t sample_texts = 4000;
  const auto texts = story_samples(static_cast<std::uint64_t>(options.synthetic.seed), sample_texts);
  return make_sentencepiece_tokenizer(train_sentencepiece(texts, options.train_tokenizer), "the trained tokenizer");
}

}  // namespace

SyntheticPrepareResult prepare_synthetic(const SyntheticPrepareOptions& options) {
  const SyntheticOptions& o = options.synthetic;
  const SyntheticTask& task = synthetic_task(o);
  if (options.output_dir.empty()) fail(ExitCode::usage, "prepare: no output folder is given");
  if (options.shard_tokens <= o.seq_length) {
    fail(ExitCode::usage, "prepare: shard_tokens = ", options.shard_tokens, " leaves no room for an example of ",
         o.seq_length, " tokens and the one after it");
  }
  const std::unique_ptr<Tokenizer> tokenizer = make_tokenizer(options, task);
  const SyntheticWindows train(o, tokenizer.get(), training_examples, o.examples);
  const SyntheticWindows val(o, tokenizer.get(), validation_examples, o.val_examples);
  const OutputFolder folder(options.output_dir, options.overwrite);

  Json files = Json::array();
  SplitWriter train_writer(folder, "train", train, options.shard_tokens),
      val_writer(folder, "val", val, options.shard_tokens);
  ProgressLine progress;
  const auto report = [&](std::int64_t done) { progress.update(concat(task.name, ": ", done, " examples")); };
  train_writer.write(files, report);
  val_writer.write(files, report);
  progress.finish(concat(task.name, ": ", o.examples, " training and ", o.val_examples, " validation examples"));

  Json manifest = {
      {"format", shard_format}, {"version", shard_format_version}, {"bytes_per_id", id_width(train.vocab_size())}};
  if (tokenizer) {
    manifest["tokenizer"] = {{"name", tokenizer->name()},
                             {"sha256", tokenizer->sha256()},
                             {"vocab_size", tokenizer->vocab_size()},
                             {"eos_id", tokenizer->eos_id()}};
  } else {
    manifest["tokenizer"] = {{"name", "none"}, {"sha256", ""}, {"vocab_size", o.vocab_size}, {"eos_id", nullptr}};
  }
  manifest["synthetic"] = synthetic_settings(o, tokenizer.get());
  manifest["example_tokens"] = o.seq_length;
  manifest["kinds"] = token_kind_names;
  manifest["train"] = {{"examples", o.examples}, {"tokens", o.examples * o.seq_length}};
  manifest["val"] = {{"examples", o.val_examples}, {"tokens", o.val_examples * o.seq_length}};
  manifest["files"] = files;
  SyntheticPrepareResult result{manifest.dump(2) + "\n", train.example(0).ids};
  folder.publish(
      [&] {
        train_writer.publish();
        val_writer.publish();
        if (tokenizer) {
          tokenizer->save(options.output_dir);
        } else {  // one that stayed would be taken for the new shards'
          for (const char* old : {"tokenizer.model", "tokenizer.json"}) std::filesystem::remove(folder.file(old));
        }
      },
      result.manifest);
  return result;
}

}  // namespace satformer
