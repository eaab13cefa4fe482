#include "data/document_pass.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <exception>
#include <optional>
#include <utility>

#include "base/progress.h"
#include "data/batch_stream.h"
#include "io/file.h"

namespace satformer {
namespace {

class Progress {
 public:
  explicit Progress(std::uint64_t total) : total_(total) {}
  void update(const TokenBatch& batch, std::int64_t text_bytes, std::int64_t tokens) {
    const double elapsed = std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
    if (elapsed < 0.5) return;
    char text[160], share_text[32] = "", left[48] = "";
    if (total_ > 0) {  // standard input has no known size
      const double share = std::min(1.0, static_cast<double>(batch.disk_position) / static_cast<double>(total_));
      std::snprintf(share_text, sizeof share_text, "%5.1f%%, ", 100 * share);
      std::snprintf(left, sizeof left, ", %s left",
                    human_duration(share > 0 ? elapsed * (1 - share) / share : 0).c_str());
    }
    std::snprintf(text, sizeof text, "tokenizing: %s%.1f MB/s, %s tokens%s", share_text,
                  static_cast<double>(text_bytes) / 1e6 / elapsed, human_count(static_cast<double>(tokens)).c_str(),
                  left);
    line_.update(text);
  }

 private:
  std::uint64_t total_;
  ProgressLine line_;
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

std::uint64_t total_bytes(const std::vector<TextInput>& inputs) {
  std::uint64_t total = 0;
  for (const TextInput& input : inputs) {
    if (input.spool) return 0;
    total += input.disk_bytes;
  }
  return total;
}

}  // namespace

DocumentRules document_rules(const PrepareOptions& options) {
  return {.separator = options.document_separator,
          .min_document_bytes = options.min_document_bytes,
          .text_key = options.text_key,
          .replace_invalid = options.skip_bad,
          .sample = {options.sample, options.seed}};
}

TokenizeRules tokenize_rules(const PrepareOptions& options, const Tokenizer& tokenizer) {
  return {&tokenizer, options.text_key, options.skip_bad, options.dedup};
}

void help_pass(const PrepareOptions& options, const std::vector<TextInput>& inputs, const Tokenizer& tokenizer) {
  BatchStream batches(inputs, document_rules(options), tokenize_rules(options, tokenizer), options.workers,
                      options.ranks);
  while (batches.next()) {
  }
}

DocumentPass::DocumentPass(const PrepareOptions& options, const std::vector<TextInput>& inputs,
                           const Tokenizer& tokenizer, const Split& split)
    : options_(options),
      inputs_(inputs),
      tokenizer_(tokenizer),
      split_(split),
      buffer_draws_(options.seed, hash_name("shuffle_buffer")),
      train(writer_options("train")),
      val(writer_options("val")) {}

ShardWriter::Options DocumentPass::writer_options(const std::string& prefix) const {
  return {.directory = options_.output_dir,
          .prefix = prefix,
          .vocab_size = tokenizer_.vocab_size(),
          .shard_tokens = options_.shard_tokens,
          .eos_id = tokenizer_.eos_id()};
}

PassCounts DocumentPass::run() {
  Progress progress(total_bytes(inputs_));
  {
    BatchStream batches(inputs_, document_rules(options_), tokenize_rules(options_, tokenizer_), options_.workers,
                        options_.ranks);
    while (const auto batch = batches.next()) {
      if (!take(*batch)) {
        batches.stop();
        break;
      }
      progress.update(*batch, counts_.result.bytes, train.tokens() + val.tokens());
    }
  }
  empty_buffer();
  train.finish();
  val.finish();
  PrepareResult& result = counts_.result;
  result.documents = result.train_documents + result.val_documents;
  result.train_tokens = train.tokens();
  result.val_tokens = val.tokens();
  result.reached_max_tokens = reached();
  return counts_;
}

// False when there are enough training tokens.
bool DocumentPass::take(const TokenBatch& batch) {
  PrepareResult& result = counts_.result;
  result.empty_documents += batch.empty_documents;
  result.bad_lines += batch.bad_lines;
  result.sampled_out += batch.sampled_out;
  result.replaced_bytes += batch.replaced_bytes;
  std::span<const std::int32_t> ids = batch.ids;
  for (const TokenBatch::Part& part : batch.parts) {
    take_part(part, ids.first(part.ids));
    if (part.ends_document && reached()) return false;
    ids = ids.subspan(part.ids);
  }
  if (batch.error) std::rethrow_exception(batch.error);
  return true;
}

void DocumentPass::take_part(const TokenBatch::Part& part, std::span<const std::int32_t> ids) {
  const auto bytes = static_cast<std::int64_t>(part.bytes);
  if (!options_.dedup && options_.shuffle_buffer == 0) {
    append(next_number_, ids, bytes);
    if (part.ends_document) end_document(next_number_++);
    return;
  }
  document_.ids.insert(document_.ids.end(), ids.begin(), ids.end());
  document_.bytes += bytes;
  part_hashes_ += part.sha256;
  if (!part.ends_document) return;
  Document document = std::exchange(document_, {});
  const std::string hashes = std::exchange(part_hashes_, {});
  if (options_.dedup) {
    Sha256 hash;
    hash.update(hashes);
    if (!seen_.insert(std::stoull(hash.hex().substr(0, 16), nullptr, 16))) {
      ++counts_.result.duplicate_documents;
      return;
    }
  }
  document.number = next_number_++;
  complete(std::move(document));
}

std::size_t DocumentPass::draw(std::size_t size) {
  return static_cast<std::size_t>(buffer_draws_.uniform(drawn_++) * static_cast<double>(size));
}

void DocumentPass::complete(Document document) {
  const auto capacity = static_cast<std::size_t>(options_.shuffle_buffer);
  if (capacity > 0 && buffer_.size() < capacity) {
    buffer_.push_back(std::move(document));
    return;
  }
  if (capacity > 0) std::swap(document, buffer_[draw(capacity)]);
  write(document);
}

void DocumentPass::empty_buffer() {
  while (!buffer_.empty() && !reached()) {
    std::swap(buffer_[draw(buffer_.size())], buffer_.back());
    write(buffer_.back());
    buffer_.pop_back();
  }
  buffer_.clear();
}

void DocumentPass::write(const Document& document) {
  append(document.number, document.ids, document.bytes);
  end_document(document.number);
}

void DocumentPass::append(std::int64_t number, std::span<const std::int32_t> ids, std::int64_t bytes) {
  (split_.is_validation(number) ? val : train).append(ids);
  counts_.result.bytes += bytes;
}

void DocumentPass::end_document(std::int64_t number) {
  PrepareResult& result = counts_.result;
  const bool is_val = split_.is_validation(number);
  (is_val ? val : train).end_document();
  ++(is_val ? result.val_documents : result.train_documents);
  const double here = split_.draw(number);
  if (counts_.lowest < 0 || here < split_.draw(counts_.lowest)) counts_.lowest = number;
  if (counts_.highest < 0 || here > split_.draw(counts_.highest)) counts_.highest = number;
  // Both splits have something, so that no second pass will be needed.
  if (result.train_documents > 0 && (result.val_documents > 0 || options_.val_fraction == 0)) {
    for (const TextInput& input : inputs_) {
      if (input.spool) input.spool->forget();
    }
  }
}

}  // namespace satformer
