// Writing model folders, and what import, export and retrofit share around it.
#pragma once

#include <memory>
#include <string>

#include "checkpoint/model_io.h"
#include "io/tokenizer.h"

namespace satformer::cli {

// Error(usage) unless `directory` does not exist, is empty, or may be replaced.
void check_model_target(const std::string& directory, bool overwrite);
// Writes config, weights and tokenizer, all of them or nothing.
void write_model_folder(const Model& model, const Tokenizer* tokenizer, const std::string& directory);
// Type of the weights on disk, by config.json: loading makes them fp32.
at::ScalarType stored_type(const std::string& directory);
// The tokenizer `spec`, else the one beside the model, else none.
std::unique_ptr<Tokenizer> tokenizer_beside(const LoadedModel& loaded, const std::string& spec);

}  // namespace satformer::cli
