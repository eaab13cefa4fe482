// Small models and data for the tests of analyses.
#pragma once

#include <memory>
#include <string>

#include "analysis/study.h"
#include "models/registry.h"

namespace satformer::testing {

// Four layers of width 32, four query heads on two KV heads, over bytes; no parameter at a start that hides mistakes.
ModelConfig analysis_config(const std::string& routing, const std::string& values);
std::unique_ptr<Model> analysis_model(const ModelConfig& config);

// Six windows of English bytes, measured.
class AnalysisFixture {
 public:
  explicit AnalysisFixture(const ModelConfig& config);

  std::unique_ptr<Model> model;
  std::unique_ptr<Tokenizer> tokenizer;
  std::unique_ptr<TokenKinds> kinds;
  Measurement measured;
  std::vector<std::int64_t> counts;
  StudyInput input;
};

}  // namespace satformer::testing
