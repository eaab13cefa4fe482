// One pass over the inputs: every document read, tokenized, chosen for a split and written.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/random.h"
#include "data/document_set.h"
#include "data/prepare.h"
#include "data/text_source.h"
#include "data/tokenize.h"
#include "io/shard_writer.h"
#include "io/tokenizer.h"

namespace satformer {

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

// A document's number counts those that are left after sampling, empty ones and duplicates, in the order of the
// input.
struct PassCounts {
  PrepareResult result;
  std::int64_t lowest = -1, highest = -1;  // documents with the lowest and the highest draw of the split
};

// What the inputs are read by.
DocumentRules document_rules(const PrepareOptions& options);
TokenizeRules tokenize_rules(const PrepareOptions& options, const Tokenizer& tokenizer);

// What a rank above 0 does while rank 0's pass runs.
void help_pass(const PrepareOptions& options, const std::vector<TextInput>& inputs, const Tokenizer& tokenizer);

// Documents go, in this order, through deduplication, numbering, the shuffle buffer and the split, one after the
// other in the order of the input: nothing depends on the number of workers.
class DocumentPass {
 public:
  DocumentPass(const PrepareOptions& options, const std::vector<TextInput>& inputs, const Tokenizer& tokenizer,
               const Split& split);
  PassCounts run();

 private:
  struct Document {
    std::int64_t number = 0, bytes = 0;
    std::vector<std::int32_t> ids;
  };

  ShardWriter::Options writer_options(const std::string& prefix) const;
  bool take(const TokenBatch& batch);
  void take_part(const TokenBatch::Part& part, std::span<const std::int32_t> ids);
  void append(std::int64_t number, std::span<const std::int32_t> ids, std::int64_t bytes);
  void end_document(std::int64_t number);
  void complete(Document document);
  void write(const Document& document);
  void empty_buffer();
  bool reached() const { return options_.max_tokens > 0 && train.tokens() >= options_.max_tokens; }
  std::size_t draw(std::size_t size);

  const PrepareOptions& options_;
  const std::vector<TextInput>& inputs_;
  const Tokenizer& tokenizer_;
  const Split& split_;
  std::int64_t next_number_ = 0;
  PassCounts counts_;
  // With deduplication or a shuffle buffer documents are put together first.
  Document document_;
  std::string part_hashes_;
  DocumentSet seen_;
  std::vector<Document> buffer_;
  Philox buffer_draws_;
  std::uint64_t drawn_ = 0;

 public:
  ShardWriter train, val;
};

}  // namespace satformer
