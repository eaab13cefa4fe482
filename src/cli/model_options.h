// The options that every command on a trained model shares.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "checkpoint/model_io.h"
#include "cli/options.h"
#include "distributed/communicator.h"
#include "io/tokenizer.h"

namespace satformer::cli {

struct ModelOptions {
  std::string model, device = "cpu", dtype = "float32", weights = "full", tokenizer;
  int threads = 0;

  void add_to(Options& options, bool with_tokenizer);
  // Loads the model on the device in the compute type, its weights quantised if asked; sets the number of threads.
  LoadedModel load() const;
  // These with the device and the threads of one of several processes.
  ModelOptions of_rank(const Communicator& ranks) const;
  // --tokenizer, else the tokenizer in the model's folder. Error(data) if there is none or its vocabulary is larger
  // than the model's.
  std::unique_ptr<Tokenizer> load_tokenizer_for(const LoadedModel& loaded) const;
};

bool has_tokenizer(const std::string& directory);

// float32 or bfloat16; Error(usage) otherwise.
at::ScalarType parse_dtype(const std::string& name);
// full (none), int8 or int4; Error(usage) otherwise.
std::optional<WeightFormat> parse_weights(const std::string& name);

// The id that ends a document if the model was trained with data.mask_documents (run_config.json beside it).
std::optional<std::int64_t> trained_document_end(const LoadedModel& loaded);

// The window length that a model was trained with (run_config.json beside it), else its longest context.
std::int64_t trained_seq_length(const LoadedModel& loaded);

}  // namespace satformer::cli
