// The tokenized batches of the inputs, in their order, made by the threads of one process or of several ("ranks").
#pragma once

#include <cstdint>
#include <deque>
#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "data/ordered_pipeline.h"
#include "data/prepare.h"
#include "data/text_source.h"
#include "data/tokenize.h"

namespace satformer {

// With several ranks each reads all of the input, tokenizes every size-th batch and gets the batches of the others;
// all see the same batches. What is wrong in the input comes at its place, whoever found it.
class BatchStream {
 public:
  // `workers`: threads of this process, 0: one a core. All references outlive the stream.
  BatchStream(const std::vector<TextInput>& inputs, const DocumentRules& documents, const TokenizeRules& rules,
              int workers, const PrepareRanks& ranks);
  std::optional<TokenBatch> next();  // nothing at the end, or when a rank has stopped
  // This rank wants no more: next() gives nothing on the others either. One rank may.
  void stop();

 private:
  struct Item {
    TextBatch text;
    bool own = true;
  };
  void exchange();

  const PrepareRanks& ranks_;
  BatchReader reader_;
  std::int64_t read_ = 0;  // batches, by the reading thread
  bool ended_ = false;     // all batches are in ready_
  std::deque<TokenBatch> ready_;
  std::exception_ptr error_;  // what comes after ready_
  OrderedPipeline<Item, TokenBatch> pipeline_;
};

}  // namespace satformer
